"""
Train the network of a study once for each planned run.

INPUTS   results/prepared/{dataset}/{input}/, results/weights/, results/environments/, results/parity/
OUTPUTS  results/runs/.../run.json (one summary, written last); beside it are events.jsonl (one line per window and
         evaluation), telemetry.csv and predictions.npz
         results/attempts/.../ (the files of a failed attempt)
         results/plans/{study}.json (every planned run, complete, for the tables)

A run is rerun if any of these change: the code it executes, its settings, the small records of its data and weights, or
its pins, whose hash is in the name of the environment's record. Arrays and weights are stored beside their records and
are verified by hash when a run starts, because Snakemake compares large files only by their time. The launcher
publishes all files of a run together, with run.json last. Snakemake tracks only run.json, because every further output
would cost planning time. The plan is not an input of a run, because Snakemake skips the rerun checks downstream of a
scheduled job.
"""

from howmanygpus.invocation import plans


rule plan_runs:
    """Write the plan of a study. Snakemake's process made it when the call began."""
    output:
        record="results/plans/{study}.json",
    log:
        "results/logs/plan_runs/{study}.log",
    localrule: True
    params:
        code=hash_script("write_planned"),
        digest=lambda wildcards: plans.hash_plan(PLAN, wildcards.study),
        files=products.files,
        values=give(planned=lambda wildcards: str(plans.find_file(wildcards.study))),
    shell:
        "{HOWMANYGPUS}/write_planned.py {params.files:q} {params.values:q} >{log:q} 2>&1"


rule train:
    input:
        data=training.data,
        weights=training.weights,
        environment=ancient(training.environment),
        verdict=ancient(training.verdict),
        probe=ancient(training.probe),
    output:
        run="results/runs/{run}/run.json",
    log:
        "results/logs/train/{run}.log",
    priority: training.priority
    threads: training.num_gpus
    resources:
        **cluster.resources(training.size, training.growth),
        measurement=100,
    params:
        code=training.code,
        settings=training.settings,
        launch=training.launch,
    shell:
        r"""
        {HOWMANYGPUS}/train.py \
            --run {output.run:q} \
            --settings {params.settings:q} \
            --data {input.data:q} \
            --weights {input.weights:q} \
            --environment {input.environment:q} \
            --verdict {input.verdict:q} \
            --launch {params.launch:q} \
            --time-limit-min {resources.limit_min} \
            >{log:q} 2>&1
        """
