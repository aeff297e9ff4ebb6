"""The analysis side: makes data sets, and turns runs into tables, figures and an answer. Runs in .venv."""
