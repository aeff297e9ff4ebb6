"""Every wrong program that only its run can tell ends as a failed attempt, or as an outcome, with the reason."""

import json
import os
import subprocess
import sys

import pytest

from hanging import HANG_S
from helpers.messages import says
from howmanygpus.measure.around.schema import read_record
from howmanygpus.measure.program.reports import KNOWN
from howmanygpus.site.jobs.completing import complete_attempts
from howmanygpus.study.program.study import complete_program_spec
from howmanygpus.study.runs import Run
from project import ROOT

EXAMPLE = 'write one object a line, such as {"step": 10, "samples": 640}'
NUMBERS = "step, samples, epoch and parameters are whole numbers, others numbers with a decimal point"
UNFINITE = "leave out what is unknown, and report a loss that is not finite as loss"
MEMORY = "CUDA out of memory. Tried to allocate 9 GiB"


def write(*lines: str) -> str:
    """Return a command that reports lines. Braces are doubled, as the shell's are in a study."""
    doubled = (line.replace("{", "{{").replace("}", "}}") for line in lines)
    return "; ".join(f"echo '{line}' >> $HOWMANYGPUS_REPORT" for line in doubled)


CASES = {
    "command not found": (
        "cd . && trian --fast",
        "crashed",
        "the program ended with exit status 127: bash: line 1: trian: command not found",
    ),
    "file not found": (
        "bash missing.sh",
        "crashed",
        "the program ended with exit status 127: bash: missing.sh: No such file or directory",
    ),
    "not executable": (
        "cd . && ./data.txt",
        "crashed",
        "the program ended with exit status 126: bash: line 1: ./data.txt: Permission denied",
    ),
    "fails": ("echo no data left; exit 3", "crashed", "the program ended with exit status 3: no data left"),
    "fails silently": ("exit 4", "crashed", "the program ended with exit status 4"),
    "killed": ("kill -9 $$", "crashed", "the program ended with killed by SIGKILL"),
    "memory": (
        f"echo '{MEMORY}'; exit 1",
        "out_of_memory",
        MEMORY,
    ),
    "hangs": (
        f"{write(json.dumps({'step': 1}))}; sleep 300",
        "time_limit",
        "not done after 4 s, the time limit of this run",
    ),
    "no report": (
        "true",
        "crashed",
        "the program ended well and wrote no report to the file that $HOWMANYGPUS_REPORT names; see "
        "docs/program.md for how "
        "it reports",
    ),
    "no step": (
        write('{"step": 0}', '{"epoch": 1, "metric": {"accuracy": 0.5}}'),
        "crashed",
        "the program ended well and reported no step above 0; report the steps done so far, see docs/program.md",
    ),
    "no JSON": (write("step 10"), "crashed", f"the report 'step 10' is not JSON; {EXAMPLE}"),
    "half a line": (
        """printf '{{"step": 1' >> $HOWMANYGPUS_REPORT""",
        "crashed",
        f"the report '{{\"step\": 1' is not JSON; {EXAMPLE}",
    ),
    "no object": (write("[10]"), "crashed", f"the report '[10]' is not an object with keys; {EXAMPLE}"),
    "unknown key": (
        write('{"steps": 10}'),
        "crashed",
        f"the report '{{\"steps\": 10}}' has the unknown key 'steps'; known are {', '.join(sorted(KNOWN))}",
    ),
    "no number": (
        write('{"step": "ten"}'),
        "crashed",
        f'the report \'{{"step": "ten"}}\' has a value that is not a number; {NUMBERS}',
    ),
    "no whole number": (
        write('{"step": 1.5}'),
        "crashed",
        f"the report '{{\"step\": 1.5}}' has a value that is not a number; {NUMBERS}",
    ),
    "negative": (
        write('{"step": -1}'),
        "crashed",
        "the report '{\"step\": -1}' has a negative number; count from the start of the training",
    ),
    "steps going back": (
        write('{"step": 10}', '{"step": 1}'),
        "crashed",
        "step 1 was reported after step 10; report steps done since the start, or the epoch with each step that is "
        "counted anew in it, and keep an expression for steps from matching the bar of an evaluation; the report is "
        "'{\"step\": 1}'",
    ),
    "samples going back": (
        write('{"step": 1, "samples": 64}', '{"step": 2, "samples": 32}'),
        "crashed",
        '32 samples were reported after 64; report those since the start; the report is \'{"step": 2, "samples": 32}\'',
    ),
    "time going back": (
        write('{"step": 1, "time": 5}'),
        "crashed",
        "a report has the time 5.0, which is before the start or an earlier report; give seconds since 1970, "
        'or leave the time out; the report is \'{"step": 1, "time": 5}\'',
    ),
    "time in milliseconds": (
        write('{"step": 1, "time": 4102444800000}'),
        "crashed",
        "a report has the time 4102444800000.0, which has not come yet; give seconds since 1970, or leave the time out",
    ),
    "infinite time": (
        write('{"step": 1, "time": Infinity}'),
        "crashed",
        f'the report \'{{"step": 1, "time": Infinity}}\' has a metric or a time that is not finite; {UNFINITE}',
    ),
    "metric without an epoch": (
        write('{"metric": {"accuracy": 1}}'),
        "crashed",
        'the report \'{"metric": {"accuracy": 1}}\' has a metric and no epoch; add the key epoch',
    ),
    "metric that is none": (
        write('{"epoch": 1, "metric": {"accuracy": NaN}}'),
        "crashed",
        'the report \'{"epoch": 1, "metric": {"accuracy": NaN}}\' has a metric or a time that is not finite; '
        f"{UNFINITE}",
    ),
    "unknown status": (
        write('{"status": "done"}'),
        "crashed",
        'the report \'{"status": "done"}\' has an unknown status; known are diverged, out_of_memory, unsupported',
    ),
    "versions": (
        write('{"step": 1, "versions": "2.13"}'),
        "crashed",
        'the report \'{"step": 1, "versions": "2.13"}\' has versions that are no object; write {"torch": "2.13"}',
    ),
    "diverged": (write('{"step": 1, "loss": NaN}'), "diverged", "training loss is nan at step 1"),
}
PATTERNS = {
    "never matches": (
        "echo iteration 5",
        r"step (?P<step>\d+)",
        r"the program ended well and printed no line that 'step (?P<step>\d+)' would match; correct the study's "
        "`report`",
    ),
    "matches no number": (
        "echo step five",
        r"step (?P<step>\w+)",
        f"the report 'step five' has a value that is not a number; {NUMBERS}",
    ),
}


def run_program(
    folder,
    command: str,
    report: list[str] | None = None,
    deadline_s: float = 300,
    modules: tuple[str, ...] = (),
    **environment: str,
) -> dict:
    """Return the record of a run of a command in a folder, as a job starts it."""
    (folder / "data.txt").touch()
    program = {"command": command, "axes": {}, "files": {}, "start": "once", "modules": [*modules]}
    program |= {"report": report} if report else {}
    run = Run.from_path("p/p/base/program_fp32_cpu_gpus1_batch32_repeat1")
    (folder / "attempt").mkdir()
    (folder / "attempt" / "spec.json").write_text(json.dumps(complete_program_spec(run, {"program": program})))
    words = ["--attempt", "attempt", "--run-dir", "run", "--deadline-s", str(deadline_s)]
    variables = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib"), "LC_ALL": "C"} | environment
    launch = [sys.executable, "-m", "howmanygpus.measure.program.launch", *words]
    status = subprocess.run(launch, cwd=folder, env=variables, capture_output=True, timeout=HANG_S).returncode
    is_outcome = (folder / "run" / "run.json").exists()
    assert is_outcome == (status == 0), "an outcome ends well, and a failed attempt does not"
    complete_attempts(folder)
    return read_record(folder / "run" / "run.json" if is_outcome else folder / "attempt" / "attempt.json")


@pytest.mark.parametrize(("command", "status", "reason"), CASES.values(), ids=CASES)
def test_a_wrong_program_ends_with_its_reason(tmp_path, command, status, reason):
    record = run_program(tmp_path, command, deadline_s=4 if status == "time_limit" else 300)
    assert (record["status"], record["reason"]) == (status, reason)


@pytest.mark.parametrize(("command", "pattern", "reason"), PATTERNS.values(), ids=PATTERNS)
def test_a_wrong_expression_ends_with_its_reason(tmp_path, command, pattern, reason):
    record = run_program(tmp_path, command, [pattern])
    assert (record["status"], record["reason"]) == ("crashed", reason)


@pytest.mark.parametrize("end", ["exec sh", "exit 0", ""])
def test_a_profile_that_ends_the_login_shell_is_no_program_that_ended_well(tmp_path, end):
    (tmp_path / ".bash_profile").write_text(f"unset BASH_ENV\nmodule() {{ :; }}\nprintf 'step 1'\n{end}\n")
    command = write('{"step": 1}', '{"step": 2}')
    record = run_program(tmp_path, command, modules=("cuda/13",), HOME=str(tmp_path))
    assert (record["status"] == "completed") == (not end), record["reason"]
    assert not end or says(record["reason"], str(tmp_path / ".bash_profile"), "exec zsh")


UNKNOWN = "ModuleCmd_Load.c(213):ERROR:105: Unable to locate a modulefile for $2"
LMOD = "Lmod has detected the following error: The following module(s) are unknown:\n$2"


@pytest.mark.parametrize("said", [LMOD, UNKNOWN, "loading $2"])
@pytest.mark.parametrize("failing", ["cuda/13", "other/1"])
def test_a_module_that_is_not_loaded_fails_the_run_although_module_ends_well(tmp_path, said, failing):
    """Versions of Environment Modules before 4 end with 0. What a program loads itself is its own affair."""
    module = f'module() {{ [ $2 != {failing} ] || echo "{said}" >&2; }}'
    (tmp_path / ".bash_profile").write_text(f"unset BASH_ENV\n{module}\n")
    command = "module load other/1; " + write('{"step": 1}', '{"step": 2}')
    record = run_program(tmp_path, command, modules=("cuda/13",), HOME=str(tmp_path))
    is_loaded = failing == "other/1" or said == "loading $2"
    assert (record["status"] == "completed") == is_loaded, record["reason"]
    assert is_loaded or says(record["reason"], "ran without a module", "cuda/13")


def test_a_last_line_without_a_line_feed_counts(tmp_path):
    record = run_program(tmp_path, write('{"step": 1}') + """; printf '{{"step": 2}}' >> $HOWMANYGPUS_REPORT""")
    assert (record["status"], record["steps"]) == ("completed", 2)


def test_output_that_the_locale_cannot_show_does_not_stop_the_program(tmp_path):
    """The program writes more after it than a pipe takes while nobody reads."""
    command = r"printf '\342\226\210\n'; head -c 200000 /dev/zero | tr '\0' x; " + write('{"step": 1}')
    record = run_program(tmp_path, command, deadline_s=300, PYTHONIOENCODING="latin-1")
    assert (record["status"], record["steps"]) == ("completed", 1)
