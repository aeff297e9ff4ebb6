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
    files = ["sentences.py", "report_progress.py", *(f"{fault}.py" for fault in FAULTS)]
    for name in files[:2]:
        shutil.copy2(ROOT / "examples" / "program" / name, project.folder)
    for fault, (right, wrong) in FAULTS.items():
        assert program.count(right) == 1
        (project.folder / f"{fault}.py").write_text(program.replace(right, wrong))
    project.take_environment(environment_record("pytorch-cpu"))
    command = "python {fault}.py --size small --strategy {strategy} --tokens {per_device_batch_size} --seed {seed}"
    command += " --epochs 1 --steps-per-epoch "
    program = {"environment": "pytorch_ddp", "start": "per_device", "files": files}
    program |= {"same_work": ["strategy"], "unit": "tokens"}
    study = {"per_device_batch_size": [1024], "warmup_steps": 5}
    # Pandas makes integers of thresholds that are whole numbers.
    study |= {"quality": {"metric": "test_loss", "thresholds": [3], "margin": 1}}
    # A pair shows faults of the exchange within three steps, and three strategies that differ each time all others.
    parts = {"small": (["moments"], ["ddp", "zero1", "fsdp2"], {"num_gpus": [1], "repeats": 2}, 60)}
    parts |= {"gross": (["average", "batch"], ["ddp", "zero1"], {"num_gpus": [2]}, 10)}
    project.write_config(
        **{
            name: study
            | grid
            | {"program": program | {"command": f"{command}{steps}", "axes": {"fault": faults, "strategy": strategies}}}
            for name, (faults, strategies, grid, steps) in parts.items()
        }
    )
    tables = [f"results/tables/{name}/answer" for name in parts]
    project.snakemake(*(f"{table}.txt" for table in tables))
    decided = [each for table in tables for each in json.loads(project.read(f"{table}.json"))["decisions"]]
    return {each["of"].removeprefix("fault_"): each for each in decided}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_difference_is_refused_with_the_step_at_which_losses_part(decisions, fault):
    # A study with one decision does not name it.
    decision = decisions[fault if fault != "moments" else ""]
    assert decision["recommended"] is None and "zero1" in decision["refusal"]
    steps = range(3, 61) if fault == "moments" else (2, 3)
    assert any(f"at step {step} " in decision["refusal"] for step in steps), decision["refusal"]
    assert fault == "moments" or "2 devices" in decision["refusal"]
