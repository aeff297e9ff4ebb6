"""The answer as facts: which framework and device count of a study to use, and what else its runs tell."""
