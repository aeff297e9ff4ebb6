"""
Make the arrays and the initial weights that every framework reads.

OUTPUTS  results/prepared/{dataset}/{arrays,synthetic}/ (uint8 arrays, manifest.tsv, dataset.json)
         results/weights/{model}_{shape}_seed{seed}.safetensors
"""

PREPARED_FILES = [
    *("train_images.npy", "train_labels.npy", "test_images.npy", "test_labels.npy"),
    "manifest.tsv",
]


localrules:
    initialize_weights,


rule prepare_arrays:
    input:
        code=get_preparing_code,
    output:
        expand("results/prepared/{{dataset}}/arrays/{file}", file=PREPARED_FILES),
        description="results/prepared/{dataset}/arrays/dataset.json",
    log:
        "results/logs/prepare_arrays/{dataset}.log",
    conda:
        "../../envs/workflow.yaml"
    params:
        source=get_dataset_source,
        options=get_dataset_options,
        folder=subpath(output.description, parent=True),
    shell:
        r"""
        python workflow/scripts/prepare_arrays.py \
            --source {params.source:q} \
            --options {params.options:q} \
            --folder {params.folder:q} \
            >{log:q} 2>&1
        """


rule prepare_synthetic:
    input:
        code=get_preparing_code,
    output:
        expand("results/prepared/{{dataset}}/synthetic/{file}", file=PREPARED_FILES),
        description="results/prepared/{dataset}/synthetic/dataset.json",
    log:
        "results/logs/prepare_synthetic/{dataset}.log",
    conda:
        "../../envs/workflow.yaml"
    params:
        source=get_dataset_source,
        options=get_dataset_options,
        folder=subpath(output.description, parent=True),
    shell:
        r"""
        python workflow/scripts/prepare_arrays.py \
            --source {params.source:q} \
            --options {params.options:q} \
            --random \
            --folder {params.folder:q} \
            >{log:q} 2>&1
        """


rule prepare_images:
    """Write prepared arrays as PNG or JPEG files, each image in a file of its own, with labels and a manifest."""
    input:
        code=code.script("prepare_images"),
        arrays="results/prepared/{dataset}/arrays/dataset.json",
    output:
        "results/prepared/{dataset}/{form}/train_labels.npy",
        "results/prepared/{dataset}/{form}/test_labels.npy",
        "results/prepared/{dataset}/{form}/manifest.tsv",
        images=directory("results/prepared/{dataset}/{form}/images"),
        description="results/prepared/{dataset}/{form}/dataset.json",
    log:
        "results/logs/prepare_images/{dataset}_{form}.log",
    conda:
        "../../envs/workflow.yaml"
    threads: 4
    params:
        arrays=subpath(input.arrays, parent=True),
        folder=subpath(output.description, parent=True),
    shell:
        r"""
        python workflow/scripts/prepare_images.py \
            --arrays {params.arrays:q} \
            --form {wildcards.form} \
            --threads {threads} \
            --folder {params.folder:q} \
            >{log:q} 2>&1
        """


rule initialize_weights:
    input:
        code=lambda wildcards: code.script("initialize_weights", f"trainbench.models.{wildcards.model}.parameters"),
    output:
        weights="results/weights/{model}_{height}x{width}x{channels}_classes{num_classes}_seed{seed}.safetensors",
        record="results/weights/{model}_{height}x{width}x{channels}_classes{num_classes}_seed{seed}.json",
    log:
        "results/logs/initialize_weights/{model}_{height}x{width}x{channels}_classes{num_classes}_seed{seed}.log",
    conda:
        "../../envs/workflow.yaml"
    shell:
        r"""
        python workflow/scripts/initialize_weights.py \
            --model {wildcards.model:q} \
            --image-shape {wildcards.height} {wildcards.width} {wildcards.channels} \
            --num-classes {wildcards.num_classes} \
            --seed {wildcards.seed} \
            --weights {output.weights:q} \
            >{log:q} 2>&1
        """
