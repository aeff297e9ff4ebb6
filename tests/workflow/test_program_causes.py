"""What slows down a program on purpose is named as the cause, with its share, by control runs that it honours."""

import csv
import json
import shutil

import pytest

from project import ROOT, Project

PROGRAM = """
import os, socket, sys, time
from report_progress import control, report

slow, (host, port) = sys.argv[1], sys.argv[2].split(":")
rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
keeps_batch = control("resident_input")
peers = []
if count > 1 and not control("no_exchange"):
    server = socket.create_server(("", int(port))) if rank == 0 else None
    for _ in range(count - 1 if rank == 0 else 600):
        try:
            peers.append(server.accept()[0] if rank == 0 else socket.create_connection((host, int(port))))
        except OSError:
            time.sleep(0.1)
        if rank:
            if peers:
                break


def wait_for_all():
    for peer in peers:
        peer.sendall(b"x")
    for peer in peers:
        peer.recv(1)
    global due
    due = max(due, time.monotonic() - 0.01)


def take(seconds):
    # What a step before took too long, because the process got no core, is made up for.
    global due
    due += seconds
    time.sleep(max(0.0, due - time.monotonic()))


due = time.monotonic()
report(step=0, parameters=1000)
for step in range(1, 51):
    if not keeps_batch and count > 1 and slow == "input":
        take(MORE_S)
    take(STEP_S + MORE_S * (slow == "rank" and rank == 1))
    if peers:
        wait_for_all()
        take(MORE_S * (slow == "exchange"))
    if step % 4 == 0:
        report(step=step)
"""
STEP_S, MORE_S = 0.1, 0.05
SHARE = MORE_S / (STEP_S + MORE_S)
CASES = {"input": "input", "exchange": "exchange", "rank": "imbalance"}
"""What each program is slowed by, and the cause that is to be named."""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("causes") / "project", fakes=())
    shutil.copy2(ROOT / "examples" / "program" / "report_progress.py", project.folder)
    program = PROGRAM.replace("MORE_S", str(MORE_S)).replace("STEP_S", str(STEP_S))
    (project.folder / "train.py").write_text(program)
    files = {"files": ["train.py", "report_progress.py"], "start": "per_device"}
    project.write_config(
        **{
            name: {
                "program": {"command": f"python3 train.py {name} {{rendezvous}}", **files},
                **{"num_gpus": [1, 2], "warmup_steps": 6, "diagnose": True},
            }
            for name in CASES
        }
    )
    project.snakemake(*(f"results/tables/{name}/explanations.tsv" for name in CASES))
    return project


def read_row(project, name: str) -> dict:
    (row,) = csv.DictReader(project.read(f"results/tables/{name}/explanations.tsv").splitlines(), delimiter="\t")
    return row


@pytest.mark.parametrize("name", CASES)
def test_the_cause_is_named_with_its_share(project, name):
    row = read_row(project, name)
    assert row["causes"].split(", ")[0] == CASES[name], row["sentence"]
    assert float(row["loss_frac"]) == pytest.approx(SHARE, abs=0.03), row["sentence"]
    assert float(row[f"{CASES[name]}_frac"]) == pytest.approx(SHARE, abs=0.03), row["sentence"]
    assert abs(float(row["unexplained_frac"])) < 0.03 and not row["run_next"]
    if name == "rank":
        assert row["slow_process"].startswith("1@")


def test_the_exchange_is_measured_with_the_bytes_that_the_program_reports(project):
    (record,) = (project.folder / "results" / "probe").glob("*_of_program_exchange.json")
    (size,) = json.loads(record.read_text())["sizes"]
    assert size["size_mib"] * 2**20 == pytest.approx(4 * 1000) and size["median_s"] > 0
