"""
Train one network once per planned run.

INPUTS   results/plans/{study}.json, results/prepared/{dataset}/{input}/, results/weights/, results/environments/
OUTPUTS  results/runs/.../run.json (one summary, written last), events.jsonl (one line per window and evaluation),
         telemetry.csv, predictions.npz

Arrays, weights and environments are ancient and verified by hash at start; the code, the pins and the small
description of the data are what reruns a run.
"""


localrules:
    plan_runs,


rule plan_runs:
    input:
        code=code.script("plan_runs"),
    output:
        plan="results/plans/{study}.json",
    log:
        "results/logs/plan_runs/{study}.log",
    conda:
        "../../envs/workflow.yaml"
    params:
        request=lambda wildcards: get_study(wildcards).request(),
    shell:
        r"""
        python workflow/scripts/plan_runs.py \
            --request {params.request:q} \
            --plan {output.plan:q} \
            >{log:q} 2>&1
        """


rule train:
    input:
        code=get_training_code,
        pins=get_pins,
        data=lambda wildcards: f"{get_data_dir(wildcards)}/dataset.json",
        arrays=ancient(get_arrays),
        weights=ancient(get_weights),
        environment=ancient(get_environment),
        plan=ancient("results/plans/{study}.json"),
    output:
        run="results/runs/{study}/{framework}/{variant}/{cell}/run.json",
        events="results/runs/{study}/{framework}/{variant}/{cell}/events.jsonl",
        telemetry="results/runs/{study}/{framework}/{variant}/{cell}/telemetry.csv",
        predictions="results/runs/{study}/{framework}/{variant}/{cell}/predictions.npz",
    log:
        "results/logs/train/{study}/{framework}/{variant}/{cell}.log",
    priority: lambda wildcards: PLAN.priorities[get_run(wildcards).path]
    conda:
        "../../envs/workflow.yaml"
    threads: lambda wildcards: get_run(wildcards).num_gpus
    resources:
        measurement=100,
        runtime=lambda wildcards: get_study(wildcards).config["time_limit_min"],
    params:
        settings=lambda wildcards: PLAN.fingerprints[get_run(wildcards).path],
    shell:
        r"""
        python workflow/scripts/train.py \
            --plan {input.plan:q} \
            --run {wildcards.study:q}/{wildcards.framework:q}/{wildcards.variant:q}/{wildcards.cell:q} \
            --environment {input.environment:q} \
            --time-limit-min {resources.runtime} \
            >{log:q} 2>&1
        """
