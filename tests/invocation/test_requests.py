"""What a rule tells its step, and what the step reads."""

import json
from pathlib import Path
from types import SimpleNamespace

from howmanygpus.base.requests import read_request
from howmanygpus.invocation.rules.functions import RuleFunctions, give
from howmanygpus.study.invalidation.recorded import AliasedParameter

LONGEST_ARGUMENT_BYTES = 128 * 1024
"""MAX_ARG_STRLEN of Linux. A shell command is one argument."""


class Files(dict):
    """Named files as Snakemake gives them to a function."""


def ask(input, output=None, root="", **values):
    rules = RuleFunctions(SimpleNamespace(machine=None))
    rules.root = Path(root)
    wildcards = Files(study="it's müller's")
    arguments = rules.files(wildcards, Files(input), Files(output or {})), give(**values)(wildcards)
    return arguments, read_request(*arguments)


def test_a_step_reads_one_path_or_a_list_or_nothing():
    _, request = ask(
        {"plan": "a b.json", "decision": [], "records": ["x"]}, {"tables": ["t.tsv", "u.tsv"]}, key=[1, "2x1"]
    )
    assert request.input == SimpleNamespace(plan=Path("a b.json"), decision=[], records=[Path("x")])
    assert request.output.tables == [Path("t.tsv"), Path("u.tsv")]
    assert request.wildcards.study == "it's müller's" and request.values.key == [1, "2x1"]


def test_a_step_gets_paths_as_it_finds_them_in_the_folder_of_a_prefix():
    _, request = ask({"plan": "of/all/results/plans/of.json", "records": ["of/all/results/a"]}, root="of/all")
    assert request.input == SimpleNamespace(plan=Path("results/plans/of.json"), records=[Path("results/a")])


def test_a_list_of_all_runs_is_in_no_command():
    runs = [f"results/runs/study/pytorch_ddp/base/arrays_fp32_cpu_gpus{number}/run.json" for number in range(10_000)]
    (files, _), _ = ask({"results": runs, "plan": "plan.json"})
    assert len(files) < LONGEST_ARGUMENT_BYTES and "plan.json" in files


def test_a_file_that_is_a_value_is_recorded_by_its_content():
    first, second, changed = (
        give(machine=[AliasedParameter(path, content)], of=lambda wildcards: wildcards["study"])({"study": "s"})
        for path, content in (("here/machine.yaml", "1f"), ("there/machine.yaml", "1f"), ("here/machine.yaml", "2e"))
    )
    assert repr(first) == repr(second) != repr(changed)
    assert json.loads(first) == {"machine": ["here/machine.yaml"], "of": "s"}
