"""What is drafted for a real cluster can be submitted to it."""

import os
import subprocess
import sys

import yaml

from howmanygpus.invocation.cluster import find_misfits
from howmanygpus.site.batch_script import list_options
from howmanygpus.site.machine import read_machine
from howmanygpus.site.requests import JobSize, job_resources
from howmanygpus.site.retrying import Growth
from howmanygpus.study.plan import Plan
from howmanygpus_tools.draft_machine.drafting import ask_site, draft_machine, draft_profile
from project import ROOT, study
from slurm.cluster import CORES_PER_NODE, GPUS_PER_NODE, MEMORY_PER_NODE_MB


def test_the_drafts_for_a_cluster_describe_it_and_its_scheduler_accepts_their_largest_job(
    run_cluster, tmp_path, monkeypatch
):
    with run_cluster(accounting=True) as cluster:
        cluster.run("sacctmgr", "--immediate", "modify", "user", "root", "set", "MaxSubmitJobs=7")
        for name, value in cluster.environment().items():
            if os.environ.get(name) != value:
                monkeypatch.setenv(name, value)
        site = ask_site()
        (tmp_path / "machine.yaml").write_text(draft_machine(site))
        machine = read_machine(tmp_path / "machine.yaml")
        device = machine.devices["fake"]
        shares = (device.cores_per_device, device.options["memory_per_device_mb"])
        assert shares == (CORES_PER_NODE // GPUS_PER_NODE, MEMORY_PER_NODE_MB // GPUS_PER_NODE)
        assert (device.devices_per_node, device.options["partition"]) == (GPUS_PER_NODE, "gpu")
        planned = study(frameworks=["pytorch_ddp"], devices=["fake"], num_gpus=[2 * GPUS_PER_NODE])
        assert find_misfits(Plan({"studies": {"s": planned}}, machine), tmp_path) == []
        largest = job_resources(machine, JobSize(device, "per_device", 2 * GPUS_PER_NODE, 2, 60), Growth())
        cluster.run("sbatch", "--test-only", *list_options(largest), "--wrap=true")
        profile = yaml.safe_load(draft_profile(site, (ROOT / "profiles/slurm/config.yaml").read_text()))
        assert profile["jobs"] == 7
        command = [sys.executable, "-m", "howmanygpus_tools.draft_machine", "--profile", "profiles/mine"]
        environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow/lib")}
        drafted = subprocess.run(command, cwd=tmp_path, env=environment, check=True, text=True, stdout=subprocess.PIPE)
        assert "with the cluster: snakemake --profile profiles/mine " in drafted.stdout, "the folder is no clone"
        assert yaml.safe_load((tmp_path / "profiles/mine/config.yaml").read_text()) == profile
