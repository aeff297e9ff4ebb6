"""
Draft machine.yaml and config.yaml of a SLURM cluster, in a folder for `--profile`, from what SLURM tells here.

Call it where jobs are submitted. Read the drafts before they are used: comments name what could not be asked.

    make draft-machine PROFILE=profiles/slurm_mysite
"""

import argparse
import sys
from pathlib import Path

from howmanygpus.clone import choose_file
from howmanygpus.config.errors import ConfigError
from howmanygpus.files import write_text_atomic
from howmanygpus.invocation.closing_message import name_program
from howmanygpus.site.slurm import SlurmError
from howmanygpus_tools.draft_machine.drafting import (
    STATE,
    ask_site,
    draft_machine,
    draft_profile,
    list_statements,
    refuse_to_overwrite,
)

TEMPLATE = "profiles/slurm/config.yaml"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", type=Path, required=True, help="folder to write, such as profiles/slurm_mysite")
    parser.add_argument("--overwrite", action="store_true", help="replace files that are there")
    arguments = parser.parse_args()
    folder = arguments.profile
    try:
        if not arguments.overwrite:
            refuse_to_overwrite(folder, ("machine.yaml", "config.yaml"))
        site, template = ask_site(), Path(choose_file(TEMPLATE)).read_text()
        drafts = {"machine.yaml": draft_machine(site), "config.yaml": draft_profile(site, template)}
    except ConfigError as error:
        sys.exit(f"draft_machine: {error}")
    except SlurmError as error:
        sys.exit(f"draft_machine: {error}; call this where jobs are submitted, with SLURM's module loaded if it is one")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in drafts.items():
        write_text_atomic(folder / name, text)
        print(f"{folder / name} is written.")
        for statement in list_statements(text):
            print(f"  {STATE}{statement}")
    print(f"Then compare it with the cluster: {name_program()} --profile {folder} --configfile mine.yaml --dry-run")


if __name__ == "__main__":
    main()
