"""
Make initial weights from given ones, for studies whose `init` is not `random`.

INPUTS   torchvision's published files, or a file of the user
OUTPUTS  results/downloads/ (fetched files, in a folder named after the beginning of their checksum)
         results/weights/imagenet/{model}.safetensors (published weights, in canonical names and layouts)
         results/weights/{network}_{shape}_seed{seed}_{start}.safetensors (initial weights of runs). The .json beside it
         says where the weights are from, and which arrays were drawn

If a published file cannot be fetched, a call of Snakemake ends before it starts any job (`onstart` in common.smk).
"""


rule fetch_weights:
    output:
        record="results/weights/imagenet/{model}.published.json",
    log:
        "results/logs/fetch_weights/{model}.log",
    wildcard_constraints:
        model=weights.match_models(),
    priority: BEFORE_RUNS
    localrule: True
    params:
        name=weights.published_file,
        place=weights.place,
        downloads=DOWNLOADS,
    shell:
        r"""
        {HOWMANYGPUS}/fetch_weights.py \
            --name {params.name:q} \
            --place {params.place:q} \
            --downloads {params.downloads:q} \
            --record {output.record:q} \
            >{log:q} 2>&1
        """


rule convert_weights:
    input:
        environment=ancient(environment_record("pytorch-cpu")),
        published="results/weights/imagenet/{model}.published.json",
    output:
        weights="results/weights/imagenet/{model}.safetensors",
        record="results/weights/imagenet/{model}.json",
    log:
        "results/logs/convert_weights/{model}.log",
    wildcard_constraints:
        model=weights.match_models(),
    priority: BEFORE_RUNS
    localrule: True
    params:
        code=weights.conversion,
    shell:
        r"""
        {HOWMANYGPUS}/run_module.py \
            --environment {input.environment:q} \
            --module measure.frameworks.torch.published \
            --model {wildcards.model:q} \
            --published {input.published:q} \
            --weights {output.weights:q} \
            >{log:q} 2>&1
        """


DRAWN_WEIGHTS = f"{{network}}_{IMAGES_AND_CLASSES}_seed{{seed}}"


rule adapt_weights:
    """Take the given weights, and from the drawn ones the last layer if it is for another number of classes."""
    input:
        drawn=f"results/weights/{DRAWN_WEIGHTS}.json",
        converted=weights.converted,
    output:
        weights=f"results/weights/{DRAWN_WEIGHTS}_{{start}}.safetensors",
        record=f"results/weights/{DRAWN_WEIGHTS}_{{start}}.json",
    log:
        f"results/logs/adapt_weights/{DRAWN_WEIGHTS}_{{start}}.log",
    priority: BEFORE_RUNS
    localrule: True
    params:
        code=hash_script("adapt_weights"),
        given=weights.given,
    shell:
        r"""
        {HOWMANYGPUS}/adapt_weights.py \
            --drawn {input.drawn:q} \
            --given {params.given:q} \
            --weights {output.weights:q} \
            >{log:q} 2>&1
        """
