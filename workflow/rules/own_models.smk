"""
Check the models that users wrote in files of their own, draw their weights, and do the gate's task with them.

INPUTS   the user's file, results/environments/
OUTPUTS  results/weights/own_{name}{options}_{shape}_seed{seed}.safetensors
         results/parity/own_{name}{options}_{shape}_.../reference.json (the results of one device)

A wrong file fails in the first of these rules, which trains nothing. The code of the file is a parameter.
"""

OWN_NETWORK = f"{{own_model}}{{options}}_{IMAGES_AND_CLASSES}"
WEIGHTS_OF_OWN = f"{OWN_NETWORK}_seed{{seed}}"
TASK_OF_OWN = f"{OWN_NETWORK}_{{batchnorm}}{{variation}}"


rule initialize_own_weights:
    input:
        environment=ancient(own_models.environment),
    output:
        weights=f"results/weights/{WEIGHTS_OF_OWN}.safetensors",
        record=f"results/weights/{WEIGHTS_OF_OWN}.json",
    log:
        f"results/logs/initialize_own_weights/{WEIGHTS_OF_OWN}.log",
    # This is the first of all jobs that could start, so that a wrong file is seen before anything is trained.
    priority: 3000000
    params:
        code=own_models.initialization,
        options=own_models.options,
        family=own_models.family,
        model_file=own_models.file,
        precisions=own_models.precisions,
    shell:
        r"""
        {HOWMANYGPUS}/run_module.py \
            --environment {input.environment:q} \
            --module measure.frameworks.initialize_own_model \
            --family {params.family} \
            --model-file {params.model_file:q} \
            --options {params.options:q} \
            --image-shape {wildcards.height} {wildcards.width} {wildcards.channels} \
            --num-classes {wildcards.num_classes} \
            --seed {wildcards.seed} \
            --precisions {params.precisions} \
            --weights {output.weights:q} \
            >{log:q} 2>&1
        """


rule compute_own_reference:
    input:
        environment=ancient(own_models.environment),
        weights=f"results/weights/{OWN_NETWORK}_seed1.json",
    output:
        reference=f"results/parity/{TASK_OF_OWN}/reference.json",
    log:
        f"results/logs/compute_own_reference/{TASK_OF_OWN}.log",
    priority: 1000002
    threads: 4
    params:
        code=own_models.reference,
        defaults=parity.defaults,
        devices=parity.devices,
        precisions=parity.precisions,
        options=own_models.options,
        family=own_models.family,
        model_file=own_models.file,
        name=own_models.name,
    shell:
        r"""
        {HOWMANYGPUS}/run_module.py \
            --environment {input.environment:q} \
            --module gate.own \
            --family {params.family} \
            --model {params.name:q} \
            --model-file {params.model_file:q} \
            --options {params.options:q} \
            --image-shape {wildcards.height} {wildcards.width} {wildcards.channels} \
            --num-classes {wildcards.num_classes} \
            --batchnorm {wildcards.batchnorm} \
            --variation {wildcards.variation:q} \
            --defaults {params.defaults:q} \
            --weights {input.weights:q} \
            --threads {threads} \
            --devices {params.devices} \
            --precisions {params.precisions} \
            --folder "$(dirname {output.reference:q})" \
            >{log:q} 2>&1
        """
