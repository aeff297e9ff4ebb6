"""
Train one network once per planned run.

INPUTS   results/prepared/{dataset}/{input}/, results/weights/, results/environments/, results/parity/
OUTPUTS  results/runs/.../run.json (one summary, written last), and beside it events.jsonl (one line per window and
         evaluation), telemetry.csv, predictions.npz
         results/attempts/.../ (what a failed attempt left)
         results/plans/{study}.json (every planned run, complete, for the tables)

What reruns a run: the code it executes, its settings, the small records of its data and weights, and its pins (by
their hash in the name of the environment's record). Arrays and weights lie beside their records and are verified by
hash at start; large files would only be compared by their time. The launcher publishes a run's files together, run.json
last, so Snakemake follows that one alone: every further output would be paid for in planning time. The plan is no input
of a run: Snakemake does not look for changes in jobs behind one that it reruns anyway.
"""


localrules:
    plan_runs,


rule plan_runs:
    output:
        plan="results/plans/{study}.json",
    log:
        "results/logs/plan_runs/{study}.log",
    params:
        code=hash_script("plan_runs"),
        request=training.request,
    shell:
        r"""
        PYTHONPATH=workflow/lib .venv/bin/python workflow/scripts/plan_runs.py \
            --request {params.request:q} \
            --plan {output.plan:q} \
            >{log:q} 2>&1
        """


rule train:
    input:
        data=training.data,
        weights=training.weights,
        environment=ancient(training.environment),
        verdict=ancient(training.verdict),
    output:
        run="results/runs/{study}/{framework}/{variant}/{cell}/run.json",
    log:
        "results/logs/train/{study}/{framework}/{variant}/{cell}.log",
    priority: training.priority
    threads: training.num_gpus
    resources:
        **cluster.resources(training.size),
        measurement=100,
    params:
        code=training.code,
        settings=training.settings,
        parity=training.parity,
        placement=training.placement,
    shell:
        r"""
        PYTHONPATH=workflow/lib .venv/bin/python workflow/scripts/train.py \
            --run {wildcards.study:q}/{wildcards.framework:q}/{wildcards.variant:q}/{wildcards.cell:q} \
            --settings {params.settings:q} \
            --data {input.data:q} \
            --weights {input.weights:q} \
            --environment {input.environment:q} \
            --verdict {input.verdict:q} \
            --parity {params.parity} \
            --placement {params.placement:q} \
            --time-limit-min {resources.limit_min} \
            >{log:q} 2>&1
        """
