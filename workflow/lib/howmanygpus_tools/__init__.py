"""
What a person starts beside the workflow: checks of machines, drafts, comparisons, exports.

Each module or package is a program, started by `make` or by `python -m howmanygpus_tools.NAME` with `workflow/lib` on
PYTHONPATH. It imports the library; nothing of the library, its rules and its scripts imports it.
"""
