"""A strategy of the example's GPT that does other work is refused by runs of the workflow, with the step."""

import json
import shutil

import pytest

from project import ROOT, Project

STEP = "            optimizer.step()\n"
ROUND = """            for state in optimizer.optim.state.values() if arguments.strategy == "zero1" else ():
                for name in ("exp_avg", "exp_avg_sq"):
                    state[name].copy_(state[name].bfloat16())
"""
FAULTS = {
    "moments": (STEP, STEP + ROUND),
    "average": ("return model, ZeroRedundancyOptimizer", "return model.module, ZeroRedundancyOptimizer"),
    "batch": ("arguments.seed + rank", 'arguments.seed + rank * (arguments.strategy != "zero1")'),
}
"""Faults of the strategy zero1, as changes of the example."""


@pytest.fixture(scope="module")
def decisions(tmp_path_factory, environment_record):
    """Return the decision about each fault, which is another axis of the study."""
    project = Project(tmp_path_factory.mktemp("faults") / "project", fakes=())
    program = (ROOT / "examples" / "program" / "gpt_torch.py").read_text()
    for name in ("sentences.py", "report_progress.py"):
        shutil.copy2(ROOT / "examples" / "program" / name, project.folder)
    for fault, (right, wrong) in FAULTS.items():
        assert program.count(right) == 1
        (project.folder / f"{fault}.py").write_text(program.replace(right, wrong))
    project.take_environment(environment_record("pytorch-cpu"))
    command = "torchrun --standalone --nproc-per-node {num_gpus} {fault}.py --size small --strategy {strategy}"
    command += " --tokens {per_device_batch_size} --seed {seed} --epochs 1 --steps-per-epoch 80"
    axes = {"fault": list(FAULTS), "strategy": ["ddp", "zero1", "fsdp2"]}
    files = ["sentences.py", "report_progress.py", *(f"{fault}.py" for fault in FAULTS)]
    given = {"command": command, "environment": "pytorch_ddp", "axes": axes, "same_work": ["strategy"], "files": files}
    study = {"program": given | {"unit": "tokens"}, "num_gpus": [1, 2], "per_device_batch_size": [1024]}
    quality = {"metric": "test_loss", "thresholds": [3.0], "margin": 1}
    project.write_config(faults=study | {"warmup_steps": 10, "quality": quality})
    project.snakemake("results/tables/faults/answer.txt")
    facts = json.loads(project.read("results/tables/faults/answer.json"))
    return {each["of"].removeprefix("fault_"): each for each in facts["decisions"]}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_difference_is_refused_with_the_step_at_which_losses_part(decisions, fault):
    decision = decisions[fault]
    assert decision["recommended"] is None and "zero1" in decision["refusal"]
    steps = range(3, 81) if fault == "moments" else (2, 3)
    assert any(f"at step {step} " in decision["refusal"] for step in steps), decision["refusal"]
    assert fault == "moments" or "2 devices" in decision["refusal"], "on one device nothing is averaged"
