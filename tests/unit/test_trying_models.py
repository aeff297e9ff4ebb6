"""A user's model is tried before anything is submitted, and only what its file is to blame for stops the call."""

import json
import re
import sys
from types import SimpleNamespace

import pytest

from howmanygpus.call import models
from howmanygpus.call.models import refuse_models
from project import ROOT

RIGHT = "weights = sys.argv[sys.argv.index('--weights') + 1]; open(weights, 'w').write('')"
WRONG = "net.py: build returned NoneType; return a torch.nn.Module"
JOB = {"own_model": "own_net", "options": "", "height": "8", "width": "8", "channels": "1", "num_classes": "10"}


@pytest.fixture
def try_models(tmp_path, monkeypatch):
    """A function from what a fake Python does, or None for no Python, to what is refused and what is warned of."""
    monkeypatch.chdir(tmp_path)

    def get(does: str | None):
        record = tmp_path / "pytorch-cpu.json"
        if does is not None:
            python = tmp_path / "python"
            python.write_text(f"#!{sys.executable}\nimport sys, time\n{does}\n")
            python.chmod(0o755)
            record.write_text(json.dumps({"python": str(python)}))
        jobs = [
            SimpleNamespace(
                rule=SimpleNamespace(name=models.RULE),
                wildcards=SimpleNamespace(**JOB, seed=seed),
                input=SimpleNamespace(environment=str(record)),
            )
            for seed in "12"
        ]
        jobs.append(SimpleNamespace(rule=SimpleNamespace(name="train")))
        model = SimpleNamespace(path="net.py", family="torch")
        plan, said = SimpleNamespace(own_models={"own_net": model}, networks={"own_net": {"width": 4}}), []
        return refuse_models(plan, jobs, said.append), said

    return get


def test_a_right_model_is_not_refused(try_models):
    assert try_models(f"assert '{{\"width\": 4}}' in sys.argv; {RIGHT}") == ([], [])


def test_a_wrong_model_is_refused_once_with_its_error(try_models):
    assert try_models(f"sys.exit('Traceback ...\\n{WRONG}')") == ([WRONG], [])


@pytest.mark.parametrize("does", ["sys.exit(9)", "raise ImportError('libgomp')", "sys.exit('net.py: MemoryError')"])
def test_what_this_machine_may_be_to_blame_for_is_left_to_the_job(try_models, does):
    refused, (said,) = try_models(does)
    assert refused == [] and said.startswith("net.py: it could not be tried here (")


def test_a_model_that_takes_long_is_left_to_the_job(try_models, monkeypatch):
    monkeypatch.setattr(models, "LONGEST_S", 0.2)
    refused, (said,) = try_models("time.sleep(60)")
    assert refused == [] and "it took more than 0.2 s" in said


def test_an_environment_that_is_not_built_is_left_to_the_job(try_models):
    assert try_models(None) == ([], [])


def test_where_jobs_start_at_once_the_check_of_a_model_is_the_first():
    text = "".join(path.read_text() for path in (ROOT / "workflow" / "rules").glob("*.smk"))
    rules = dict(
        re.findall(r"^(?:rule|use rule \w+ as) (\w+)(.*?)(?=^(?:rule|use rule)|\Z)", text, re.DOTALL | re.MULTILINE)
    )
    fixed = {name: re.search(r"^    priority: (\d+)$", body, re.MULTILINE) for name, body in rules.items()}
    priorities = {name: int(found[1]) for name, found in fixed.items() if found}
    assert len(priorities) > 4 and max(priorities, key=priorities.get) == models.RULE
