"""
Submit one job that does all runs of up to one node, one after another, on one node of its own.

The job's request is read from the profile, so only its time is given here. Arguments after -- are passed to Snakemake.
If runs are still missing when the time is up, submit it again.

    PYTHONPATH=workflow/lib .venv/bin/python workflow/scripts/submit_packed.py \
        --profile profiles/slurm_mysite --time 12:00:00 -- --configfile mine.yaml
"""

import argparse
import os
import sys
from pathlib import Path

from howmanygpus.config.errors import ConfigError
from howmanygpus.site.machine import read_machine
from howmanygpus.site.packing import choose_device, list_options, read_account, write_script
from howmanygpus.site.slurm import SlurmError, submit

OTHER_PLACES = (
    "call this where jobs are submitted, such as a login node, and load SLURM's module there if the site has one; "
    "without a cluster, call Snakemake with `--profile profiles/local`"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", type=Path, required=True, help="folder with config.yaml and machine.yaml")
    parser.add_argument("--time", required=True, help="time limit of the job, as sbatch takes it")
    parser.add_argument("--device", help="its name in the machine file, if that describes several")
    parser.add_argument("arguments", nargs="*", help="options and targets of Snakemake, behind --")
    arguments = parser.parse_args()
    machine_file = arguments.profile / "machine.yaml"
    try:
        device = choose_device(read_machine(machine_file, packed=True), arguments.device)
        options = list_options(device, read_account(arguments.profile), arguments.time)
    except ConfigError as error:
        sys.exit(f"submit_packed: {error}")
    script = write_script(machine_file, arguments.arguments)
    try:
        print(submit(options, script), end="")
    except SlurmError as error:
        if error.status is None:
            sys.exit(f"submit_packed: sbatch is not on this machine, {os.uname().nodename}; {OTHER_PLACES}")
        sys.exit(error.stderr)


if __name__ == "__main__":
    main()
