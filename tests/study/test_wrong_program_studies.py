"""Every wrong program that its study tells ends in its error before anything starts: value, place and remedy."""

import pytest

from helpers.wrong_models import CPU
from howmanygpus.config.errors import ConfigError
from howmanygpus.study.plan import Plan

STUDIES: list[tuple[dict, str]] = [
    (
        {"program": {"command": "sh t.sh {gpus}"}},
        'program.command: "{gpus}" is no placeholder; write {{gpus}} for braces of the shell; or '
        "did you mean num_gpus?",
    ),
    (
        {"program": {"command": "sh t.sh ${HOME}"}},
        'program.command: "{HOME}" is no placeholder; write {{HOME}} for braces of the shell; or '
        "choose from devices_per_node, global_batch_size, num_gpus, num_nodes, "
        "per_device_batch_size, precision, rendezvous, repeat, seed",
    ),
    (
        {"program": {"command": "sh t.sh {"}},
        "program.command: \"sh t.sh {\" has unpaired braces (Single '{' encountered in format "
        "string); write {{ and }} for braces of the shell",
    ),
    (
        {"program": {"command": "sh t.sh {seed:03d}"}},
        'program.command: "sh t.sh {seed:03d}" has braces that hold no plain name; write {{ and '
        "}} for braces of the shell",
    ),
    (
        {"program": {"command": "sh 'ab"}},
        'program.command: "sh \'ab" is no command of the shell (No closing quotation); close the quote',
    ),
    (
        {"program": {"command": "A=1"}},
        'program.command: "A=1" starts no program; write the command that trains',
    ),
    (
        {"program": {"command": "trian.py"}},
        'program.command: "trian.py" is no program that can be executed; correct it, `chmod +x` '
        "it, or name `environment`, `python` or `modules`",
    ),
    (
        {"program": {"command": ""}},
        'program.command: "" is empty; write text or leave the key out',
    ),
    (
        {"program": {"comand": "sh t.sh"}},
        'program: unknown key "comand"; did you mean command?',
    ),
    (
        {"program": {"start": "per_gpu"}},
        'program.start: "per_gpu" is not known here; choose from mpirun, once, per_device, per_node',
    ),
    (
        {"program": {"name": "pytorch_ddp"}},
        'program.name: "pytorch_ddp" is the name of a framework; choose another name',
    ),
    (
        {"program": {"name": "My Program"}},
        'program.name: "My Program" is no valid name; use lower-case letters, digits and underscores',
    ),
    (
        {"program": {"unit": "tokens/s"}},
        'program.unit: "tokens/s" does not match ^[A-Za-z]{1,20}$; Plural word of at most 20 letters for what the '
        "program counts, such as `tokens`: in batch sizes, in `samples` of its reports, and in tables, figures and the "
        "answer. Reruns no run.",
    ),
    (
        {"program": {"axes": {"seed": [1]}}},
        'program.axes.seed: "seed" is a name of the workflow\'s own; choose another name',
    ),
    (
        {"program": {"axes": {"size": [1, 2]}}},
        "program.axes.size: [1, 2] is not used by the command; write {size} into the command or remove the axis",
    ),
    (
        {"program": {"command": "sh t.sh {strategy}", "axes": {"strategy": ["ddp"]}, "same_work": ["stratgy"]}},
        'program.same_work[0]: "stratgy" is no axis; did you mean strategy?',
    ),
    (
        {"program": {"same_work": ["strategy"]}},
        'program.same_work[0]: "strategy" is no axis; add it to `axes` or remove it',
    ),
    (
        {"program": {"axes": {"size": []}}},
        "program.axes.size: [] is empty; give at least one entry or leave the key out",
    ),
    (
        {"program": {"command": "sh t.sh {size}", "axes": {"size": ["a-b", "a_b"]}}},
        "program.axes: [\"a_b\"] has the same name in paths as ['a-b']; change one of them by a letter or a digit",
    ),
    (
        {"program": {"files": ["missing.py"]}},
        'program.files[0]: "missing.py" is no file or folder with files, seen from {here}; correct the path',
    ),
    (
        {"program": {"environment": "pytorch"}},
        'program.environment: "pytorch" is not a known framework; did you mean one of horovod_pytorch, pytorch_ddp, '
        "pytorch_dp?",
    ),
    (
        {"program": {"python": "/no/python"}},
        'program.python: "/no/python" is no interpreter that can be executed; give the path of one',
    ),
    (
        {"program": {"python": "/bin/sh", "environment": "pytorch_ddp"}},
        'program.python: "/bin/sh" is given beside `environment`; remove one of them',
    ),
    (
        {"program": {"container": "/no/image.sif"}},
        'program.container: "/no/image.sif" does not exist; give an image\'s file or an address',
    ),
    (
        {"program": {"python": "~no_such_user/python"}},
        'program.python: "~no_such_user/python" has a variable or a user that is not known here; write the path out',
    ),
    (
        {"program": {"report": r"step (?P<step>\d+), (?P<loss>\S+)"}},
        'program.report: "step (?P<step>\\\\d+), (?P<loss>\\\\S+)" is not of type array or null; write '
        r"['step (?P<step>\d+), (?P<loss>\S+)']",
    ),
    (
        {"program": {"report": ["step ("]}},
        'program.report[0]: "step (" is no regular expression (missing ), unterminated '
        "subpattern at position 5); correct it",
    ),
    *(
        (
            {"program": {"report": [rf"(?P<{group}>\d+){sign} "]}},
            f'program.report[0]: "(?P<{group}>\\\\d+){sign_shown} " has the {group} in per cent, which is no count; '
            r"let it go on to the number behind it, as in %.* (?P<step>\d+)/\d+ \[",
        )
        for group, sign, sign_shown in (("step", "%", "%"), ("epoch", r"\s*%", r"\\s*%"), ("samples", " %", " %"))
    ),
    (
        {"program": {"report": ["loss (?P<loss>\\S+)"]}},
        'program.report[0]: "loss (?P<loss>\\\\S+)" has neither a group step nor a group epoch; '
        "name a group, as in step (?P<step>\\d+) or epoch (?P<epoch>\\d+)",
    ),
    (
        {"program": {"report": ["step (?P<step>\\d+)", "(?P<accuracy>\\S+) at (?P<step>\\d+)"]}},
        'program.report[1]: "(?P<accuracy>\\\\S+) at (?P<step>\\\\d+)" has the metric accuracy and '
        "no group epoch; add a group epoch, here or in an expression of its own, or use (?:...) for other groups",
    ),
    (
        {"program": {"report": ["epoch (?P<epoch>\\d+) accuracy (?P<accuracy>\\S+)"]}},
        'program.report: ["epoch (?P<epoch>\\\\d+) accuracy (?P<accuracy>\\\\S+)"] has no expression '
        "for steps alone; add one such as step (?P<step>\\d+), from which rates are computed",
    ),
    (
        {"program": {"command": "sh t.sh {size}", "axes": {"size": ["x" * 120]}}},
        'program.axes: ["{long}"] makes a name of 125 characters; give shorter values',
    ),
    (
        {"program": {"files": ["empty"]}},
        'program.files[0]: "empty" is no file or folder with files, seen from {here}; correct the path',
    ),
    (
        {"program": {"report": ["step (?P<step>\\d+)"]}, "quality": {"thresholds": [0.5]}},
        'program.report: ["step (?P<step>\\\\d+)"] has no group accuracy, on whose thresholds runs '
        "are judged; add an expression with (?P<accuracy>...) or remove quality.thresholds",
    ),
    (
        {"epochs": 2},
        "epochs: 2 has no effect on a program; remove it; a study with a program has program, "
        "devices, num_gpus, num_nodes, per_device_batch_size, scaling, precision, repeats, "
        "repeats_precision, repeats_limit, seed, exclude, "
        "warmup_steps, quality, published, deviations, diagnose, time_limit_min, stop_below_efficiency, "
        "budget_device_h, cases, predict, worth_doubling, deadline_h, budget",
    ),
    (
        {"frameworks": ["pytorch_ddp"]},
        'frameworks: ["pytorch_ddp"] has no effect on a program; remove it; a study with a '
        "program has program, devices, num_gpus, num_nodes, per_device_batch_size, scaling, precision, "
        "repeats, repeats_precision, repeats_limit, seed, exclude, warmup_steps, quality, published, "
        "deviations, diagnose, time_limit_min, stop_below_efficiency, budget_device_h, "
        "cases, predict, worth_doubling, deadline_h, budget",
    ),
    (
        {"precision": ["fp32", "bf16"]},
        'precision: ["fp32", "bf16"] makes runs that all do the same; write {precision} into the '
        "command or give one entry",
    ),
    (
        {"per_device_batch_size": [8, 16]},
        "per_device_batch_size: [8, 16] makes runs that all do the same; write "
        "{per_device_batch_size} or {global_batch_size} into the command or give one entry",
    ),
    (
        {"quality": {"metric": "perplexity"}},
        'quality.metric: "perplexity" is not known; choose from accuracy, macro_auc, roc_auc, test_loss, top5_accuracy',
    ),
    (
        {"exclude": [{"variant": "other"}]},
        'exclude[0]: {"variant": "other"} matches no run; correct or remove it',
    ),
    (
        {"scaling": "strong", "num_gpus": [1, 2], "per_device_batch_size": [7]},
        "num_gpus: 2 does not divide the global batch of 7 images under strong scaling; choose a "
        "per_device_batch_size that every device count divides",
    ),
    (
        {"num_gpus": [0]},
        "num_gpus[0]: 0 is too small; give at least 1",
    ),
    (
        {"time_limit_min": 0},
        "time_limit_min: 0 is too small; give at least 1",
    ),
]
"""What differs from a right study, and the words of its error after `studies.p.`."""


@pytest.mark.parametrize(("changes", "message"), STUDIES, ids=[str(changes)[:60] for changes, _ in STUDIES])
def test_a_wrong_program_is_refused(tmp_path, monkeypatch, changes, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.sh").write_text("true\n")
    (tmp_path / "empty").mkdir()
    program = {"command": "sh t.sh", "files": ["t.sh"]} | changes.get("program", {})
    with pytest.raises(ConfigError) as raised:
        Plan({"studies": {"p": {"devices": ["cpu"], **changes, "program": program}}}, CPU)
    expected = message.replace("{here}", str(tmp_path)).replace("{long}", "x" * 120)
    assert str(raised.value).removeprefix("studies.p.") == expected
