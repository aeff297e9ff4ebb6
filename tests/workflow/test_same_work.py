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
    """Return the decision about each fault. One device shows rounded moments alone, and has no exchange."""
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
    given = {"environment": "pytorch_ddp", "axes": {"strategy": ["ddp", "zero1", "fsdp2"]}, "same_work": ["strategy"]}
    study = {"per_device_batch_size": [1024], "warmup_steps": 10}
    study |= {"quality": {"metric": "test_loss", "thresholds": [3.0], "margin": 1}}
    studies = {
        fault: study
        | {"num_gpus": [1, 2] if fault == "moments" else [2]}
        | {"program": given | {"command": command.replace("{fault}", fault), "unit": "tokens"}}
        for fault in FAULTS
    }
    for fault, each in studies.items():
        each["program"]["files"] = ["sentences.py", "report_progress.py", f"{fault}.py"]
    project.write_config(**studies)
    tables = {fault: f"results/tables/{fault}/answer" for fault in FAULTS}
    project.snakemake(*(f"{table}.txt" for table in tables.values()))
    decided = {fault: json.loads(project.read(f"{table}.json"))["decisions"] for fault, table in tables.items()}
    return {fault: decision for fault, (decision,) in decided.items()}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_difference_is_refused_with_the_step_at_which_losses_part(decisions, fault):
    decision = decisions[fault]
    assert decision["recommended"] is None and "zero1" in decision["refusal"]
    steps = range(3, 81) if fault == "moments" else (2, 3)
    assert any(f"at step {step} " in decision["refusal"] for step in steps), decision["refusal"]
    assert fault == "moments" or "2 devices" in decision["refusal"]
