"""Options of a model reach weights, the gate, runs and tables, and rerun what depends on them."""

import json

from safetensors.numpy import load_file

from project import ROWS, study

SHORT = "resnet44-blocks1_8x8x1_classes10"
RUN = "small/sleeping/base/arrays_fp32_cpu_gpus1_batch64_repeat1"


def write_study(project, **options):
    given = study(frameworks=["sleeping"], num_gpus=[1], model="resnet44", parity="report")
    project.write_config(small=given | ({"model_options": options} if options else {}))


def test_a_short_network_is_drawn_gated_trained_and_shown(project, environment_python):
    environment_python("pytorch-cpu")  # The reference needs it.
    write_study(project, blocks=1)
    project.snakemake(*ROWS)
    results = project.folder / "results"
    weights = load_file(results / "weights" / f"{SHORT}_seed1.safetensors")
    assert len([name for name in weights if name.endswith(".kernel")]) == 8
    (task,) = (results / "parity").glob(f"{SHORT}_local_*")
    gated = load_file(task / "weights.safetensors")
    assert gated.keys() == weights.keys()
    assert json.loads((task / "reference.json").read_text())["model_options"]
    (row,) = project.read_rows()
    assert (row["status"], row["model"], row["model_options"]) == ("completed", "resnet44", "blocks 1")
    assert json.loads(project.read(f"results/runs/{RUN}/run.json"))["spec"]["model_options"] == {"blocks": 1}

    write_study(project, blocks=1, width=16)
    assert project.planned(*ROWS) == [], "this is the model's own width"
    write_study(project, blocks=2)
    assert {RUN, "initialize_weights", "compute_reference"} <= set(project.planned(*ROWS))
