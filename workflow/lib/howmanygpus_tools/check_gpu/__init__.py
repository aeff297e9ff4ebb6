"""
Check a GPU: an expert's loops beside the workflow, the gate, rates, waits, batches, and the page that shows them.

This file and `lent` use only the standard library, because they are also used before anything is installed.
"""

NETWORKS = ("resnet50", "resnet44")
"""Networks that are trained in an expert's loops and in the workflow; each is a step of the check."""
STEPS = ("site", *NETWORKS, "gate", "rates", "waits", "batches")
"""The steps of the check in their order. The first is always done: it looks for frameworks."""
