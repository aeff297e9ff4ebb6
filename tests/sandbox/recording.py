"""
Trains the studies of the recorded set `cluster` as jobs of the test cluster, whose nodes are processes of this machine.

The nodes have the names that hosts have in the archive. The measurements run one after the other.
"""

import argparse
import shutil
import sys
from pathlib import Path

from forking import run_snakemake
from recorded_runs import CLUSTER, CONFIG, MACHINE, SCRUBBED
from slurm.cluster import Cluster, find_obstacle
from slurm.isolation import isolate_configuration
from slurm.project import ClusterProject

NUM_NODES = 2
LONGEST_S = 4 * 3600.0
"""After this time the recording is given up. It takes minutes."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="new folder for a copy of the project, whose `results` can be kept")
    folder = parser.parse_args().folder.resolve()
    folder.mkdir(parents=True)
    (etc := folder / "etc").mkdir()
    isolate_configuration(etc)
    if obstacle := find_obstacle():
        sys.exit(obstacle)
    with Cluster(folder / "cluster", NUM_NODES, node=SCRUBBED) as cluster:
        project = ClusterProject(folder, cluster)
        shutil.copy2(CLUSTER / MACHINE, folder / project.profile / "machine.yaml")
        shutil.copy2(CLUSTER / CONFIG, folder / "config" / "config.yaml")
        printed = folder / "printed.txt"
        status = run_snakemake(["--profile", project.profile], folder, project.environment(), printed, LONGEST_S)
    print(printed.read_text())
    sys.exit(status)


if __name__ == "__main__":
    main()
