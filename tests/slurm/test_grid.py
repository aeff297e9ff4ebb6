"""The grid as jobs."""

import json

from project import study


def test_x(project):
    project.write_config(
        grid=study(
            frameworks=["sleeping", "pacing"], devices=["fake"], num_gpus=[1, 2, 4, 8], per_device_batch_size=[8]
        )
    )
    print(project.snakemake(timeout_s=300))
    for path in sorted((project.folder / "results/runs").rglob("run.json")):
        record = json.loads(path.read_text())
        print(
            path.parent.name,
            record["status"],
            record["job"],
            [(p["hostname"], p["visible_devices"]) for p in record["processes"]],
        )
    print((project.folder / "results/tables/runs.tsv").read_text())
