"""Write the batch script of the configuration that a study's answer recommends, for this cluster."""

import argparse
import json
from pathlib import Path

from howmanygpus.files import write_text_atomic
from howmanygpus.paths import RUNS
from howmanygpus.site.batch_script import make_batch_script
from howmanygpus.site.machine import read_machine


def write_script(decisions: list[dict], plan: dict, machine: Path) -> str:
    """Return the script of the first recommendation; a comment if there is none. decisions: those of answer.json."""
    chosen = next((each["recommended"] for each in decisions if each["recommended"]), None)
    if chosen is None:
        return f"# No recommendation: {decisions[0]['refusal']}.\n"
    spec = plan["runs"][str(Path(chosen["run_dirs"][0]).relative_to(RUNS))]["spec"]
    walls = [json.loads((Path(folder) / "run.json").read_text())["wall_time_s"] for folder in chosen["run_dirs"]]
    return make_batch_script(spec, max(walls), read_machine(machine))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--facts", type=Path, required=True, help="the study's answer.json")
    parser.add_argument("--plan", type=Path, required=True, help="the study's plan")
    parser.add_argument("--machine", type=Path, required=True, help="machine file of the cluster")
    parser.add_argument("--batch-script", type=Path, required=True, help="file to write")
    arguments = parser.parse_args()
    decisions = json.loads(arguments.facts.read_text())["decisions"]
    text = write_script(decisions, json.loads(arguments.plan.read_text()), arguments.machine)
    write_text_atomic(arguments.batch_script, text)


if __name__ == "__main__":
    main()
