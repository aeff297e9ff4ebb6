"""
Decides what makes a step run again: changes of the code it executes, its settings, its pins or its data.

Code is compared by its syntax trees without docstrings, and pins are compared by their requirements. A change of
comments or documentation therefore reruns nothing.
"""
