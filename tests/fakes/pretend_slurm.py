"""
Pretend to be the commands of SLURM, by the name under which this file is called.

The folder $FAKE_SLURM has a folder `jobs` with a file for each job, and `plan.json`, which a test writes:

    run_s           how long a job runs after sbatch has taken it
    forget_s        how long after its end the controller knows a job
    most            number of jobs that sbatch takes at a time
    <command>       how a command answers, one of a list at random: "well", "nothing", "garbage", "error", "delay",
                    "refused", "late"
    away            whether the controller is away

The command of a job is not started. At its end its outputs appear, whose names are in the file `outputs` as
{comment of the job: [path, ...]}.
"""

import fcntl
import json
import os
import pwd
import random
import sys
import time
from pathlib import Path

FOLDER = Path(os.environ["FAKE_SLURM"])
PLAN = {"run_s": 1.0, "forget_s": 1e9, "most": 10**6, "away": False} | json.loads((FOLDER / "plan.json").read_text())
JOBS = FOLDER / "jobs"
GARBAGE = ")=> \x1b[0m slurm_load_jobs|error|\n|||\n"


def read_jobs() -> dict[str, dict]:
    return {path.name: json.loads(path.read_text()) for path in sorted(JOBS.iterdir())}


def end_jobs(jobs: dict[str, dict], now: float) -> None:
    """Make the outputs of the jobs that have ended since."""
    outputs = json.loads((FOLDER / "outputs").read_text()) if (FOLDER / "outputs").exists() else {}
    for job in jobs.values():
        if read_state(job, now) == "COMPLETED":
            for path in outputs.get(job["comment"], []):
                if not Path(path).exists():
                    Path(path).write_text(f"{job['comment']}\n")


def read_state(job: dict, now: float) -> str:
    if "state" in job:
        return job["state"]
    return "COMPLETED" if now - job["submitted"] >= PLAN["run_s"] else "RUNNING"


def is_known(job: dict, now: float) -> bool:
    return now - job["submitted"] < PLAN["run_s"] + PLAN["forget_s"]


def find_option(words: list[str], name: str) -> str:
    for position, word in enumerate(words):
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
        if word == name:
            return words[position + 1]
    return ""


def submit(words: list[str], jobs: dict[str, dict], now: float) -> str:
    if sum(read_state(job, now) == "RUNNING" for job in jobs.values()) >= PLAN["most"]:
        sys.exit("sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (MaxSubmitJobLimit)")
    number = str(max([100, *map(int, jobs)]) + 1)
    job = {"comment": find_option(words, "--comment"), "name": find_option(words, "--job-name"), "submitted": now}
    (JOBS / number).write_text(json.dumps(job))
    (FOLDER / "submissions").open("a").write(f"{now} {job['comment']}\n")
    return number


def answer(command: str, words: list[str]) -> str:
    now, jobs = time.time(), read_jobs()
    end_jobs(jobs, now)
    known = {number: job for number, job in jobs.items() if is_known(job, now)}
    if command == "sbatch":
        return submit(words, jobs, now)
    if command == "scancel":
        for number in (word for word in words if word.isdigit()):
            (JOBS / number).write_text(json.dumps(jobs[number] | {"state": "CANCELLED"}))
        return ""
    if command == "scontrol" and words[-2:-1] == ["job"]:
        if words[-1] not in known:
            sys.exit("slurm_load_jobs error: Invalid job id specified")
        return f"JobId={words[-1]} JobState={read_state(known[words[-1]], now)}"
    if command == "squeue":
        shown = [(number, job, read_state(job, now)) for number, job in known.items()]
        if "--states=all" not in words:
            shown = [each for each in shown if each[2] == "RUNNING"]
        line = find_option(words, "--format")
        for position, code in enumerate(("%i", "%T", "%j", "%k", "%u")):
            line = line.replace(code, f"{{{position}}}")
        user = pwd.getpwuid(os.geteuid()).pw_name
        return "\n".join(line.format(number, state, job["name"], job["comment"], user) for number, job, state in shown)
    if command == "sacct":
        fields = "|" * find_option(words, "--format").count(",")
        asked = find_option(words, "--jobs").split(",")
        return "\n".join(f"{number}|{read_state(jobs[number], now)}{fields[1:]}" for number in asked if number in jobs)
    return ""


def main() -> None:
    command, words = Path(sys.argv[0]).name, sys.argv[1:]
    if random.choice(PLAN.get(command, ["well"])) == "delay":
        time.sleep(2)
    lock = (FOLDER / "lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    if PLAN["away"] or "always" in PLAN.get(command, []):
        sys.exit(f"{command}: error: Unable to contact slurm controller (connect failure)")
    match random.choice(PLAN.get(command, ["well"])):
        case "nothing":
            return
        case "garbage":
            print(GARBAGE)
            return
        case "refused":
            sys.exit(f"{command}: error: Batch job submission failed: Invalid account or account/partition combination")
        case "error":
            sys.exit(f"{command}: error: Socket timed out on send/recv operation")
        case "late":
            answer(command, words)
            sys.exit(f"{command}: error: Socket timed out on send/recv operation")
    if printed := answer(command, words):
        print(printed)


main()
