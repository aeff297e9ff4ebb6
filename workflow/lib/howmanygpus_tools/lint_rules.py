"""
Run `snakemake --lint` and fail for every lint, except for those that the project does not follow.

    .venv/bin/python workflow/lib/howmanygpus_tools/lint_rules.py
"""

import re
import subprocess
import sys

DECIDED = {
    "Specify a conda environment or container for each rule.": "every step runs in the pinned .venv (docs/design)",
    "Shell command directly uses variable HOWMANYGPUS from outside of the rule": (
        "the place of the code is no parameter, so that moving it reruns nothing (invocation/commands.py)"
    ),
}
"""Titles of lints that are not followed, with the reason."""
SUBJECT, TITLE = re.compile(r"Lints for (.+):$"), re.compile(r" {4}\* (.+):$")


def list_lints(output: str) -> list[str]:
    """Return one line for each lint that is not in the list of exceptions, with the rule or file it is about."""
    found, subject = [], ""
    for line in output.splitlines():
        if match := SUBJECT.match(line):
            subject = match[1]
        elif (match := TITLE.match(line)) and match[1] not in DECIDED:
            found.append(f"{subject}: {match[1]}")
    return found


def main() -> None:
    command = [sys.executable, "-m", "snakemake", "--lint"]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lints = list_lints(result.stdout)
    if result.returncode and "Lints for" not in result.stdout:
        sys.exit(result.stdout)
    print("\n".join(lints) or "snakemake --lint: nothing, except what DECIDED names")
    sys.exit(bool(lints))


if __name__ == "__main__":
    main()
