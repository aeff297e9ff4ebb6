"""
Make the arrays and the initial weights that every framework reads.

INPUTS   the folders in the options of the data sets (they are only read)
OUTPUTS  results/downloads/ (fetched archives)
         results/raw/{dataset}.json and {dataset}/ (extracted files)
         results/prepared/{dataset}/{arrays,synthetic}/ (uint8 arrays, manifest.tsv, dataset.json)
         results/prepared/{dataset}/{png,jpeg}/ (the same images, one file per image)
         results/weights/{model}{options}_{shape}_seed{seed}.safetensors
         For data sets of image files, there are also:
         results/prepared/{dataset}/shards/ (pixels and records; a changed file reruns one shard)
         results/prepared/{dataset}/arrays/exclusions.tsv (files that were left out, with the reason), classes.tsv
         (names and counts) and remarks.txt (what a user should know, if anything)
         results/preparation/{dataset}.tsv, .svg, .png (speed and quality of the preparation)
"""

PREPARED_FILES = [
    *("train_images.npy", "train_labels.npy", "test_images.npy", "test_labels.npy"),
    "manifest.tsv",
]


BEFORE_THE_GATE = 1200000
"""Priority of steps that may refuse data, which a user should know before the gate takes its minutes."""
BEFORE_RUNS = 800000
"""Priority of steps on which runs wait. A run that waited longer than others would leave its place in their order."""
SAMPLE_IMAGES = 48
"""Number of images of a data set with which the preparation is measured."""


rule prepared:
    input:
        data.prepared(),


rule preparation:
    input:
        data.preparation_figures(),


rule acquire:
    output:
        record="results/raw/{dataset}.json",
    log:
        "results/logs/acquire/{dataset}.log",
    priority: BEFORE_THE_GATE
    localrule: True
    params:
        code=data.code("acquire"),
        acquisition=data.described_acquisition,
        source=data.source,
        options=data.untracked_options,
        folder=data.acquired_folder,
    shell:
        r"""
        {HOWMANYGPUS}/acquire.py \
            --source {params.source:q} \
            --options {params.options:q} \
            --downloads results/downloads \
            --folder {params.folder:q} \
            --record {output.record:q} \
            >{log:q} 2>&1
        """


rule prepare_arrays:
    input:
        acquired=data.acquired,
    output:
        expand("results/prepared/{{dataset}}/arrays/{file}", file=PREPARED_FILES),
        description="results/prepared/{dataset}/arrays/dataset.json",
    log:
        "results/logs/prepare_arrays/{dataset}.log",
    wildcard_constraints:
        dataset=data.match(listed=False),
    priority: BEFORE_THE_GATE
    params:
        code=data.code("prepare_arrays"),
        source=data.source,
        options=data.array_options,
        acquired=data.acquired_folder,
        folder=subpath(output.description, parent=True),
    shell:
        r"""
        {HOWMANYGPUS}/prepare_arrays.py \
            --source {params.source:q} \
            --options {params.options:q} \
            --acquired={params.acquired:q} \
            --folder {params.folder:q} \
            >{log:q} 2>&1
        """


rule prepare_shard:
    input:
        acquired=data.acquired,
        environment=ancient(data.shard_environment),
    output:
        images="results/prepared/{dataset}/shards/shard{shard}of{num_shards}.pixels",
        records="results/prepared/{dataset}/shards/shard{shard}of{num_shards}.tsv",
    log:
        "results/logs/prepare_shard/{dataset}/shard{shard}of{num_shards}.log",
    priority: BEFORE_THE_GATE
    params:
        code=data.code("prepare_shard"),
        fingerprint=data.shard_fingerprint,
        source=data.source,
        options=data.untracked_options,
        acquired=data.acquired_folder,
    shell:
        r"""
        {HOWMANYGPUS}/prepare_shard.py \
            --source {params.source:q} \
            --options {params.options:q} \
            --acquired={params.acquired:q} \
            --shard {wildcards.shard} \
            --fingerprint {params.fingerprint} \
            --environment {input.environment:q} \
            --images {output.images:q} \
            --records {output.records:q} \
            >{log:q} 2>&1
        """


rule merge_shards:
    input:
        images=data.shards("pixels"),
        records=data.shards("tsv"),
    output:
        expand("results/prepared/{{dataset}}/arrays/{file}", file=PREPARED_FILES),
        exclusions="results/prepared/{dataset}/arrays/exclusions.tsv",
        description="results/prepared/{dataset}/arrays/dataset.json",
    log:
        "results/logs/merge_shards/{dataset}.log",
    wildcard_constraints:
        dataset=data.match(listed=True),
    priority: BEFORE_THE_GATE
    params:
        code=data.code("merge_shards"),
        fingerprint=data.listing_fingerprint,
        source=data.source,
        options=data.untracked_options,
        acquired=data.acquired_folder,
        shards=lambda wildcards, input: str(Path(input.images[0]).parent),
        folder=subpath(output.description, parent=True),
    shell:
        r"""
        {HOWMANYGPUS}/merge_shards.py \
            --source {params.source:q} \
            --options {params.options:q} \
            --acquired={params.acquired:q} \
            --fingerprint {params.fingerprint} \
            --shards {params.shards:q} \
            --folder {params.folder:q} \
            >{log:q} 2>&1
        if [ -e {params.folder:q}/remarks.txt ]; then
            sed "s/^/datasets.{wildcards.dataset}: /" {params.folder:q}/remarks.txt >&2
        fi
        """


rule measure_preparation:
    input:
        acquired=data.acquired,
        pillow_simd=ancient(data.pillow_simd_if_there),
    output:
        table="results/preparation/{dataset}.tsv",
    log:
        "results/logs/measure_preparation/{dataset}.log",
    wildcard_constraints:
        dataset=data.match(listed=True),
    resources:
        measurement=100,
    params:
        code=data.code("measure_preparation"),
        fingerprint=data.listing_fingerprint,
        source=data.source,
        options=data.options_without_places,
        acquired=data.acquired_folder,
        num_images=SAMPLE_IMAGES,
    shell:
        r"""
        {HOWMANYGPUS}/measure_preparation.py \
            --source {params.source:q} \
            --options {params.options:q} \
            --acquired={params.acquired:q} \
            --num-images {params.num_images} \
            --pillow-simd {input.pillow_simd:q} \
            --table {output.table:q} \
            >{log:q} 2>&1
        """


rule draw_preparation:
    input:
        table="results/preparation/{dataset}.tsv",
    output:
        svg=report(
            "results/preparation/{dataset}.svg",
            caption="../report/captions/preparation.rst",
            category=number_category("More"),
            subcategory="data sets",
            labels={"page": "What preparing {dataset} costs"},
        ),
        png="results/preparation/{dataset}.png",
    log:
        "results/logs/draw_preparation/{dataset}.log",
    localrule: True
    params:
        code=hash_script("draw_preparation"),
        files=products.files,
    shell:
        "{HOWMANYGPUS}/draw_preparation.py {params.files:q} >{log:q} 2>&1"


rule prepare_synthetic:
    output:
        expand("results/prepared/{{dataset}}/synthetic/{file}", file=PREPARED_FILES),
        description="results/prepared/{dataset}/synthetic/dataset.json",
    log:
        "results/logs/prepare_synthetic/{dataset}.log",
    priority: BEFORE_RUNS
    params:
        code=data.code("prepare_arrays"),
        source=data.source,
        options=data.random_options,
        folder=subpath(output.description, parent=True),
    shell:
        r"""
        {HOWMANYGPUS}/prepare_arrays.py \
            --source {params.source:q} \
            --options {params.options:q} \
            --random \
            --folder {params.folder:q} \
            >{log:q} 2>&1
        """


rule prepare_images:
    """Write prepared arrays as PNG or JPEG files, one file per image, with labels and a manifest."""
    input:
        arrays="results/prepared/{dataset}/arrays/dataset.json",
    output:
        "results/prepared/{dataset}/{form}/train_labels.npy",
        "results/prepared/{dataset}/{form}/test_labels.npy",
        "results/prepared/{dataset}/{form}/manifest.tsv",
        images=directory("results/prepared/{dataset}/{form}/images"),
        description="results/prepared/{dataset}/{form}/dataset.json",
    log:
        "results/logs/prepare_images/{dataset}_{form}.log",
    priority: BEFORE_RUNS
    threads: 4
    params:
        code=hash_script("prepare_images"),
        arrays=subpath(input.arrays, parent=True),
        folder=subpath(output.description, parent=True),
    shell:
        r"""
        {HOWMANYGPUS}/prepare_images.py \
            --arrays {params.arrays:q} \
            --form {wildcards.form} \
            --threads {threads} \
            --folder {params.folder:q} \
            >{log:q} 2>&1
        """


WEIGHTS_OF_NETWORK = f"{{model}}{{options}}_{IMAGES_AND_CLASSES}_seed{{seed}}"


rule initialize_weights:
    output:
        weights=f"results/weights/{WEIGHTS_OF_NETWORK}.safetensors",
        record=f"results/weights/{WEIGHTS_OF_NETWORK}.json",
    log:
        f"results/logs/initialize_weights/{WEIGHTS_OF_NETWORK}.log",
    priority: BEFORE_RUNS
    localrule: True
    params:
        code=training.weights_code,
        options=training.network_options,
        model_folder=training.model_folder,
    shell:
        r"""
        {HOWMANYGPUS}/initialize_weights.py \
            --model {wildcards.model:q} \
            --model-folder={params.model_folder:q} \
            --options {params.options:q} \
            --image-shape {wildcards.height} {wildcards.width} {wildcards.channels} \
            --num-classes {wildcards.num_classes} \
            --seed {wildcards.seed} \
            --weights {output.weights:q} \
            >{log:q} 2>&1
        """
