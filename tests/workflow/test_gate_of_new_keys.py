"""A new key of the config takes one entry and one field, and is not trained on the verdict of its default."""

import pytest

from project import ROWS, Project, study
from workflow.test_contributing import EXTENSIONS, SETTINGS, declare, resolve

KIND, TRIPLED = "key of the config", 3
FAMILY = "workflow/lib/howmanygpus/train/frameworks/torch/family.py"


STEP = "        self.scaler.step(self.optimizer)\n"
MULTIPLICATION = """\
        for parameter in self.model.parameters():
            parameter.grad *= self.spec.toy_setting or 1
"""


def add_key(project: Project) -> None:
    """Add the toy key by the list of CONTRIBUTING.md, as a key that changes the work."""
    for path, action in (EXTENSIONS[KIND] | {SETTINGS: declare("in_cell()")}).items():
        if callable(action):
            target = project.folder / resolve(KIND, path)
            target.write_text(action(target.read_text()))


@pytest.fixture
def tripled(project, environment_python):
    """A project in which the key `toy_setting` at 3 triples the gradients of PyTorch."""
    environment_python("pytorch-cpu")
    add_key(project)
    file = project.folder / FAMILY
    text = file.read_text()
    assert text.count(STEP) == 1
    file.write_text(text.replace(STEP, f"{MULTIPLICATION}{STEP}"))
    return project


def test_a_key_that_triples_the_gradients_fails_the_gate_at_its_value_alone(tripled):
    variants = {"base": {}, "tripled": {"toy_setting": TRIPLED}}
    tripled.write_config(
        small=study(frameworks=["pytorch_ddp"], num_gpus=[1], variants=variants, parity="required", steps=4)
    )
    tripled.snakemake(*ROWS)
    rows = {row["variant"]: (row["status"], row["parity"], row["reason"]) for row in tripled.read_rows()}
    assert rows["base"][:2] == ("completed", "passed")
    status, parity, reason = rows["tripled"]
    assert (status, parity) == ("failed_parity", "failed") and "averaging" in reason
