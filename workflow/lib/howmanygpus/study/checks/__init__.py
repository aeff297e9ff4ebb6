"""
What a study must be like, a module for each subject: `check` raises ConfigError.

`names` looks at the filled study alone, `runs` and `evaluations` at one with runs, and the others at one without.
"""
