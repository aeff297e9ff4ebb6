"""Batch scripts do the runs of a study without Snakemake, and Snakemake takes their results."""

import subprocess

from hanging import HANG_S
from project import study


def test_scripts_do_the_runs_and_nothing_is_left_to_train(project):
    options = {"num_gpus": [1, 8], "per_device_batch_size": [8]}
    project.write_config(grid=study(frameworks=["pacing"], devices=["fake"], **options))
    project.snakemake("batch_scripts")
    assert not project.read_records(), "the scripts alone were written"
    scripts = sorted((project.folder / "results" / "scripts").rglob("*.sbatch"))
    assert [path.stem.split("_")[3] for path in scripts] == ["gpus1", "gpus8"]
    for script in scripts:
        submitted = ["sbatch", "--wait", str(script)]
        subprocess.run(submitted, cwd="/", env=project.environment(), check=True, timeout=HANG_S)
    records = project.read_records().values()
    assert sorted(record["spec"]["num_gpus"] for record in records) == [1, 8]
    assert {record["status"] for record in records} == {"completed"}
    assert len({record["job"]["id"] for record in records}) == 2
    assert project.planned_runs() == []
    project.snakemake("batch_scripts", "--quiet", "rules")
    assert sorted((project.folder / "results" / "scripts").rglob("*.sbatch")) == scripts
