"""A new key of the config takes one entry and one field, and is not trained on the verdict of its default."""

import pytest

from project import ROWS, Project, study
from workflow.test_contributing import EXTENSIONS, SETTINGS, declare, resolve

KIND, TRIPLED = "key of the config", 3
FAMILY = "workflow/lib/howmanygpus/measure/frameworks/{}/family.py"
STEP = "        self.scaler.step(self.optimizer)\n"
MULTIPLICATION = """\
        for parameter in self.model.parameters():
            parameter.grad *= self.spec.toy_setting or 1
"""
EDITS = {
    FAMILY.format("torch"): (STEP, MULTIPLICATION + STEP),
    FAMILY.format("keras"): (
        "TabulatedRates(learning_rates)",
        "TabulatedRates(learning_rates * (run.toy_setting or 1))",
    ),
}
"""Code of the demo's frameworks, and what it becomes. A factor on the learning rate acts as one on the gradients."""


def add_key(project: Project) -> None:
    """Add the toy key by the list of CONTRIBUTING.md, as a key that changes the work."""
    for path, action in (EXTENSIONS[KIND] | {SETTINGS: declare("in_cell()")}).items():
        if callable(action):
            target = project.folder / resolve(path)
            target.write_text(action(target.read_text()))


@pytest.fixture
def tripled(project, environment_record):
    """Return a project in which the key `toy_setting` at 3 triples the gradients of the demo's frameworks."""
    for name in ("pytorch-cpu", "tensorflow-cpu"):
        project.take_environment(environment_record(name))
    add_key(project)
    for path, (old, new) in EDITS.items():
        text = project.read(path)
        assert text.count(old) == 1, path
        (project.folder / path).write_text(text.replace(old, new))
    return project


def test_a_key_that_triples_the_gradients_fails_the_gate_at_its_value_alone(tripled):
    variants = {"base": {}, "tripled": {"toy_setting": TRIPLED}}
    frameworks = ["pytorch_ddp", "keras_mirrored"]
    tripled.write_config(
        small=study(frameworks=frameworks, num_gpus=[1], variants=variants, parity="required", steps=4)
    )
    tripled.snakemake(*ROWS)
    rows = {(row["framework"], row["variant"]): row for row in tripled.read_rows()}
    assert len(rows) == 4
    for framework in frameworks:
        assert [rows[framework, "base"][key] for key in ("status", "parity")] == ["completed", "passed"]
        row = rows[framework, "tripled"]
        assert (row["status"], row["parity"]) == ("failed_parity", "failed") and "averaging" in row["reason"]
