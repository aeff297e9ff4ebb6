"""A program of a user runs as jobs of a cluster: over two nodes, once per node, once per device, and by mpirun."""

import csv
import json
import re
import shutil

import pytest

from hanging import HANG_S
from helpers.slowed_program import PROGRAM as SLOWED
from helpers.slowed_program import SHARE
from howmanygpus.report.telemetry import read_telemetry
from project import ROOT
from slurm.project import ClusterProject

PROGRAM = """
import os, socket, sys, time
from report_progress import report

rank, count, (host, port) = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), sys.argv[1].rsplit(":", 1)
if rank == 0:
    server = socket.create_server(("", int(port)))
    for _ in range(count - 1):
        server.accept()[0].sendall(b"go")
else:
    for _ in range(3000):  # the first process may start minutes later on a busy machine
        try:
            peer = socket.create_connection((host, int(port)))
            break
        except OSError:
            time.sleep(0.1)
    assert peer.recv(2) == b"go"
print("rank", rank, "of", count, "node", os.environ["NODE_RANK"], "local", os.environ["LOCAL_RANK"], flush=True)
report(step=0)
for step in range(1, 9):
    time.sleep(0.6)  # in which the sampler of each node starts and writes
    report(step=step)
"""


def test_a_program_runs_over_two_nodes(cluster, environment_python, tmp_path):
    project = ClusterProject(tmp_path / "project", cluster)
    project.leave_figures_blank()
    shutil.copy2(ROOT / "examples" / "program" / "report_progress.py", project.folder)
    (project.folder / "train.py").write_text(PROGRAM)
    starts = {"node": {"start": "per_node"}, "device": {"start": "per_device"}}
    # An environment of ours has an mpirun.
    starts["mpi"] = {"start": "mpirun", "python": str(environment_python("chainer-cpu"))}
    command = {"command": "python3 train.py {rendezvous}", "files": ["train.py"]}
    grid = {"devices": ["fake"], "num_gpus": [8], "warmup_steps": 2}
    studies = {name: {"program": command | start, **grid} for name, start in starts.items()}
    studies["device"] |= {"num_gpus": [4], "num_nodes": [2]}  # one node could have them
    studies["alone"] = {"program": {"command": "echo {seed}", "start": "once"}, "devices": ["fake"], "num_gpus": [8]}
    project.write_config(**studies)
    project.snakemake("--until", "make_tables")
    for start, count, devices in (("node", 2, "gpus8"), ("device", 4, "gpus4_nodes2"), ("mpi", 8, "gpus8")):
        run = f"{start}/{start}/base/program_fp32_fake_{devices}_batch32_repeat1"
        record = json.loads(project.read(f"results/runs/{run}/run.json"))
        spec = record["spec"]
        assert (record["status"], record["num_processes"], record["images_seen"]) == (
            "completed",
            count,
            8 * 32 * spec["num_gpus"],
        )
        assert spec["num_nodes"] == 2 and record["job"]["requested"] == f"gres:gpu:fake:{spec['num_gpus'] // 2}"
        assert len({process["hostname"] for process in record["processes"]}) == 2
        said = project.read(f"results/logs/train/{run}.log")
        assert f"rank {count - 1} of {count} node 1 local {count // 2 - 1}" in said
        samples = read_telemetry(project.folder / "results" / "runs" / run)
        watched = {(node, f"cpu{i}") for node in (0, 1) for i in range(spec["num_gpus"] // 2)}
        assert set(zip(samples["node"], samples["device"], strict=True)) == watched | {(0, "host"), (1, "host")}
        assert record["telemetry"]["problem"] is None
    rows = {row["study"]: row for row in project.read_rows()}
    assert float(rows["device"]["images_per_s"]) > 0 and rows["device"]["num_nodes"] == "2"
    assert "uses one node" in rows["alone"]["reason"] and rows["alone"]["status"] == "unsupported"


TORCHRUN = """
import os, time
import torch.distributed

torch.distributed.init_process_group("gloo")
for step in range(9):
    torch.distributed.barrier()
    if torch.distributed.get_rank() == 0:
        print("step", step, "on node", os.environ["GROUP_RANK"], flush=True)
"""


REPEATS = 2


def find_torchrun() -> str:
    """Return the line of docs/program.md that starts torchrun over several nodes."""
    return re.search(r"`(torchrun --nnodes .*?) train\.py`", (ROOT / "docs" / "program.md").read_text())[1]


def test_the_documented_torchrun_reports_from_the_first_of_two_nodes(cluster, environment_python, tmp_path):
    project = ClusterProject(tmp_path / "project", cluster)
    (project.folder / "train.py").write_text(TORCHRUN)
    program = {"command": f"{find_torchrun()} train.py", "files": ["train.py"], "start": "per_node"}
    program |= {"python": str(environment_python("pytorch-cpu")), "report": ["step (?P<step>\\d+)"]}
    grid = {"devices": ["fake"], "num_gpus": [4], "num_nodes": [2], "warmup_steps": 2, "repeats": REPEATS}
    project.write_config(spread={"program": program, **grid})
    process = project.start("--until", "train")
    probe = project.folder / "results" / "probe" / "fake.json"
    project.wait_until(lambda: probe.exists() or process.poll() is not None, "the probe")
    output, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, output[-3000:]
    records = list(project.read_records().values())
    assert [record["status"] for record in records] == ["completed"] * REPEATS
    assert all(record["job"]["started_at"] >= probe.stat().st_mtime - 1 for record in records), (
        "runs wait for the probe"
    )


def test_a_program_that_its_exchange_between_two_nodes_slows_is_told_so(cluster, tmp_path):
    project = ClusterProject(tmp_path / "project", cluster, devices_per_node=1)
    project.leave_figures_blank()
    shutil.copy2(ROOT / "examples" / "program" / "report_progress.py", project.folder)
    (project.folder / "train.py").write_text(SLOWED)
    program = {"command": "python3 train.py exchange {rendezvous}", "start": "per_device"}
    program |= {"files": ["train.py", "report_progress.py"]}
    project.write_config(
        slowed={"program": program, "devices": ["fake"], "num_gpus": [1, 2], "warmup_steps": 6, "diagnose": True}
    )
    table = "results/tables/slowed/explanations.tsv"
    project.snakemake(table)
    (row,) = csv.DictReader(project.read(table).splitlines(), delimiter="\t")
    assert (row["num_gpus"], row["num_nodes"]) == ("2", "2") and row["causes"].split(", ")[0] == "exchange"
    for name in ("loss_frac", "exchange_frac"):
        assert float(row[name]) == pytest.approx(SHARE, abs=0.03), row["sentence"]
    assert abs(float(row["unexplained_frac"])) < 0.03 and not row["run_next"], row["sentence"]
