"""
Copy the results of another clone into this fresh one, with Snakemake's records of them, so that nothing is repeated.

A clone with running jobs is refused: its jobs would continue to write there, and this clone would do the same runs.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from howmanygpus.site.jobs.completing import list_running_attempts
from howmanygpus.site.jobs.invocations import list_jobs_of_folder, list_living_calls

RESULTS, METADATA = Path("results"), Path(".snakemake/metadata")


def detect_obstacle(source: Path) -> str:
    """Return why nothing can be adopted from a clone, and the remedy; empty if it can be."""
    if not (source / RESULTS).is_dir():
        return f"FROM={source} has no results/; name another clone: make adopt FROM=PATH"
    if RESULTS.exists():
        return "results/ exists here; adopt into a fresh clone, or move it away"
    finish = "Wait for the end, or press Ctrl-C in its terminal; then adopt"
    if living := list_living_calls(source):
        return f"FROM={source} is in use by a call of Snakemake: {living[0].describe()}. {finish}"
    jobs = {owner.describe() for _, owner in list_running_attempts(source)}
    jobs |= {f"job {job}" for job in list_jobs_of_folder(source)}
    if jobs:
        named = ", ".join(sorted(jobs))
        return f"FROM={source} has jobs that have not ended: {named}. Wait for their end or cancel them; then adopt"
    return ""


def copy_results(source: Path) -> None:
    """Copy Snakemake's records and then the results, which appear whole or not at all."""
    partial = Path(".snakemake/howmanygpus/adopted")
    for leftover in (METADATA, partial):
        shutil.rmtree(leftover, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    if (source / METADATA).exists():
        subprocess.run(["cp", "-a", str(source / METADATA), str(METADATA)], check=True)
    copy(source / RESULTS, partial)
    for folder, folders, files in os.walk(partial):
        for path in (Path(folder, name) for name in [*folders, *files]):
            original = source / RESULTS / path.relative_to(partial)
            if path.is_symlink() and not original.resolve().is_relative_to((source / RESULTS).resolve()):
                if not original.exists():
                    sys.exit(
                        f"{original} leads to {path.readlink()}, which does not exist; mount it or remove the link"
                    )
                path.unlink()
                copy(original, path)
    partial.rename(RESULTS)


def copy(source: Path, target: Path) -> None:
    """Copy a file or folder. If it is itself a link, for example to a scratch disk, what it leads to is copied.

    Two clones would otherwise write into one folder.
    """
    subprocess.run(["cp", "-a", "-H", str(source), str(target)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True, help="the other clone")
    source = parser.parse_args().source
    if obstacle := detect_obstacle(source):
        sys.exit(obstacle)
    copy_results(source)
    print(f"The results of {source} are here now.")


if __name__ == "__main__":
    main()
