"""The version of the workflow, which records and reports name. CONTRIBUTING.md says how a release is made."""

VERSION = "0.2.0"
