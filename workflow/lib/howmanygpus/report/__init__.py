"""From runs to tables, figures, the answer and the report. It runs in the workflow's own environment, .venv."""
