"""
What makes a step run again: the code it executes, its settings, its pins and its data.

Code counts by its syntax trees without docstrings, pins by their requirements: what only people read reruns nothing.
"""
