"""
Traces of frameworks' profilers: when the devices of a run ran nothing, and between which steps.

`reading.py` turns a profiler's file into the one form that `activity.py` describes; `chrome.py` and `xspace.py` each
know one format. `gaps.py` sets what ran beside what the training loop saw of the steps. Nothing here needs a framework.
"""
