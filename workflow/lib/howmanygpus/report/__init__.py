"""Makes tables, figures, the answer and the report from runs, in the workflow's own environment, .venv."""
