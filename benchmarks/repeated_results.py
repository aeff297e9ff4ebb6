"""
Repeat the demo's study, and count what `make compare` calls a difference between results that should not differ.

The study of config/config.yaml is measured `--results` times without the parity gate, in copies of the project, and
each result is compared with all earlier ones, so that five results give ten comparisons. Then PyTorch is made slower on
purpose: each of its steps sleeps for a ninth of its time, so that its rate is at most 0.9 times what it was. This
result is compared with the last one.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import yaml

from reporting import ROOT, write_benchmark

# isort: split
from environments import build
from howmanygpus_tools.compare.comparison import compare
from howmanygpus_tools.compare.result_files import read_result
from project import Project

STUDY, SLOWED = "digits", "pytorch_ddp"
ENVIRONMENTS = ("pytorch-cpu", "tensorflow-cpu")
BACKEND = "workflow/lib/howmanygpus/measure/frameworks/torch/family.py"
SLOWER = """
import time
TRAIN = TorchBackend.train_step
def train_slower(self, batch, learning_rate):
    begin = time.perf_counter()
    TRAIN(self, batch, learning_rate)
    time.sleep((time.perf_counter() - begin) / 9)
TorchBackend.train_step = train_slower
"""


def measure(folder: Path, records: list[Path], earlier: list[Project], is_slowed: bool = False) -> Project:
    """Measure the study in a new copy of the project. Data and weights are those of an earlier one."""
    project = Project(folder, fakes=())
    for record in records:
        project.take_environment(record)
    if earlier:
        project.take_prepared(earlier[0])
    if is_slowed:
        project.edit(BACKEND, SLOWER)
    demo = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())["studies"][STUDY]
    project.write_config(**{STUDY: demo | {"parity": "off"}})
    project.snakemake(f"results/tables/{STUDY}/result.json")
    return project


def describe(first: Project, second: Project) -> dict:
    """Return a row with the ratios of the frameworks, and how many of all ratios are differences."""
    path = f"results/tables/{STUDY}/result.json"
    found = compare(*(read_result(project.folder / path) for project in (first, second)))
    ratios = {each.names["framework"]: each for each in found.frameworks}
    row = {"first": first.folder.name, "second": second.folder.name}
    row |= {framework: each.ratio for framework, each in ratios.items()}
    row |= {f"{framework}_differs": each.is_difference for framework, each in ratios.items()}
    for each in found.relative:
        row |= {"slower": each.names["framework"], "relative": each.ratio, "relative_differs": each.is_difference}
    row["configurations_differ"] = sum(each.is_difference for each in found.configurations)
    print(row, file=sys.stderr)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=int, default=5, help="results that should not differ (default 5)")
    arguments = parser.parse_args()
    rows, same = [], []
    with tempfile.TemporaryDirectory() as scratch:
        records = [build(name, Path(scratch)) for name in ENVIRONMENTS]
        for number in range(arguments.results):
            project = measure(Path(scratch, f"{number + 1}"), records, same)
            rows += [describe(earlier, project) for earlier in same]
            same.append(project)
        rows.append(describe(same[-1], measure(Path(scratch, f"{SLOWED} slowed"), records, same, is_slowed=True)))
    write_benchmark("repeated_results", rows)


if __name__ == "__main__":
    main()
