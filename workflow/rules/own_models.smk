"""
Check the models that users wrote in files of their own, draw their weights, and do the gate's task with them.

INPUTS   the user's file, results/environments/
OUTPUTS  results/weights/own_{name}{options}_{shape}_seed{seed}.safetensors
         results/parity/own_{name}{options}_{shape}_.../reference.json (what one device does)

A wrong file ends in the first of these rules, which trains nothing. If jobs are submitted, the same is done where
Snakemake runs before the first of them (call/models.py). The code of the file is a parameter.
"""


rule initialize_own_weights:
    input:
        environment=ancient(own_models.environment),
    output:
        weights="results/weights/{own_model}{options}_{height}x{width}x{channels}_classes{num_classes}_seed{seed}.safetensors",
        record="results/weights/{own_model}{options}_{height}x{width}x{channels}_classes{num_classes}_seed{seed}.json",
    log:
        "results/logs/initialize_own_weights/{own_model}{options}_{height}x{width}x{channels}_classes{num_classes}_seed{seed}.log",
    # Of all jobs that could start, this is the first, so that a wrong file is seen before anything is trained.
    priority: 3000000
    params:
        code=own_models.initialization,
        options=own_models.options,
        family=own_models.family,
        model_file=own_models.file,
    shell:
        r"""
        PYTHONPATH=workflow/lib .venv/bin/python workflow/scripts/run_own_model.py \
            --environment {input.environment:q} \
            --module frameworks.own_models.initialize \
            --family {params.family} \
            --model-file {params.model_file:q} \
            --options {params.options:q} \
            --image-shape {wildcards.height} {wildcards.width} {wildcards.channels} \
            --num-classes {wildcards.num_classes} \
            --seed {wildcards.seed} \
            --weights {output.weights:q} \
            >{log:q} 2>&1
        """


rule compute_own_reference:
    input:
        environment=ancient(own_models.environment),
        weights="results/weights/{own_model}{options}_{height}x{width}x{channels}_classes{num_classes}_seed1.json",
    output:
        reference="results/parity/{own_model}{options}_{height}x{width}x{channels}_classes{num_classes}_{batchnorm}{loss}{accumulated}/reference.json",
    log:
        "results/logs/compute_own_reference/{own_model}{options}_{height}x{width}x{channels}_classes{num_classes}_{batchnorm}{loss}{accumulated}.log",
    wildcard_constraints:
        batchnorm="local|synchronized",
        loss="|_multilabel|_smoothing[^/_]+",
    priority: 1000000
    threads: 4
    params:
        accumulate=lambda wildcards: ACCUMULATED if wildcards.accumulated else 1,
        code=own_models.reference,
        options=own_models.options,
        family=own_models.family,
        model_file=own_models.file,
        name=own_models.name,
    shell:
        r"""
        PYTHONPATH=workflow/lib .venv/bin/python workflow/scripts/run_own_model.py \
            --environment {input.environment:q} \
            --module parity.own.reference \
            --family {params.family} \
            --model {params.name:q} \
            --model-file {params.model_file:q} \
            --options {params.options:q} \
            --image-shape {wildcards.height} {wildcards.width} {wildcards.channels} \
            --num-classes {wildcards.num_classes} \
            --batchnorm {wildcards.batchnorm} \
            --loss={wildcards.loss:q} \
            --accumulate {params.accumulate} \
            --weights {input.weights:q} \
            --threads {threads} \
            --folder "$(dirname {output.reference:q})" \
            >{log:q} 2>&1
        """
