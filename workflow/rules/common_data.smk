"""
Answer the rules' questions about data sets.
"""

from benchreport.preparation.listing import find_acquisition, is_listed, read_task


def get_dataset_source(wildcards):
    return PLAN.dataset_options[wildcards.dataset]["source"]


def get_dataset_options(wildcards):
    return json.dumps(PLAN.dataset_options[wildcards.dataset]["options"])


def get_preparing_code(script):
    """A function from wildcards to the code that a script executes with a data set's source."""
    return lambda wildcards: code.script(script, f"benchreport.datasets.{get_dataset_source(wildcards)}")


def match_datasets(listed):
    """A regular expression of the data sets that are made of image files, or of the others."""
    names = [name for name, options in PLAN.dataset_options.items() if is_listed(options["source"]) == listed]
    return "|".join(names) or "(?!)"


def get_task(wildcards):
    options = PLAN.dataset_options[wildcards.dataset]
    return read_task(options["source"], options["options"], get_acquired_folder(wildcards))


def get_acquisition(wildcards):
    options = PLAN.dataset_options[wildcards.dataset]
    return find_acquisition(options["source"], options["options"])


def get_acquired(wildcards):
    """The record of what is fetched or extracted for a data set; nothing where its files are at hand."""
    return f"results/raw/{wildcards.dataset}.json" if get_acquisition(wildcards) else []


def get_acquired_folder(wildcards):
    return f"results/raw/{wildcards.dataset}" if get_acquisition(wildcards) else ""


def get_shard_environment(wildcards):
    """The environment with Pillow-SIMD, where it is asked for; else nothing: this one."""
    return code.environment_record("pillow-simd") if get_task(wildcards).preparation.needs_pillow_simd else []


def get_shards(suffix):
    """A function from wildcards to the files of all shards of a data set."""

    def get(wildcards):
        count = get_task(wildcards).num_shards
        folder = f"results/prepared/{wildcards.dataset}/shards"
        return [f"{folder}/shard{shard}of{count}.{suffix}" for shard in range(count)]

    return get


def get_prepared():
    """The record of every data set of the config."""
    return [f"results/prepared/{dataset}/arrays/dataset.json" for dataset in PLAN.dataset_options]


def get_preparation_figures():
    """What preparing costs, of every data set of image files."""
    listed = [name for name, options in PLAN.dataset_options.items() if is_listed(options["source"])]
    return [f"results/preparation/{dataset}.svg" for dataset in listed]
