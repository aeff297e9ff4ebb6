"""
Check, before anything is timed, that every framework does the same work.

INPUTS   results/environments/
OUTPUTS  results/parity/{model}{options}_{shape}_{batchnorm}{variation}/reference.json (what is expected)
         results/parity/.../noise.json (what reduced precision may change in it, if a study has any)
         results/parity/.../{framework}_{precision}_{device}{option}-{hash}.json (the verdict, beside it)
         results/tables/parity.tsv, results/parity/parity.html (every check of every framework)

A run reads its verdict when it starts. If the check failed, the run does not train, unless its study sets
`parity: report`. The verdict is an `ancient` input of the run, so a change of the gate reruns the gate but no training.
The verdict's name contains the hash of the code that it covers, so a change of a framework's code requires a new
verdict.
"""

TASK_OF_NETWORK = f"{{model}}{{options}}_{IMAGES_AND_CLASSES}_{{batchnorm}}{{variation}}"


ruleorder: leave_unchecked > check_parity


rule compute_reference:
    input:
        environment=ancient(environment_record("pytorch-cpu")),
    output:
        f"results/parity/{TASK_OF_NETWORK}/reference.json",
    log:
        f"results/logs/compute_reference/{TASK_OF_NETWORK}.log",
    # Before runs of other networks, because a user's folder is checked first. Observing waits for it.
    priority: 1000002
    threads: 4
    params:
        code=training.reference_code,
        defaults=parity.defaults,
        devices=parity.devices,
        module="reference",
        options=training.network_options,
        model_folder=training.model_folder,
    shell:
        r"""
        {HOWMANYGPUS}/run_module.py \
            --environment {input.environment:q} \
            --module gate.{params.module} \
            --model {wildcards.model:q} \
            --model-folder={params.model_folder:q} \
            --options {params.options:q} \
            --image-shape {wildcards.height} {wildcards.width} {wildcards.channels} \
            --num-classes {wildcards.num_classes} \
            --threads {threads} \
            --devices {params.devices} \
            --batchnorm {wildcards.batchnorm} \
            --variation {wildcards.variation:q} \
            --defaults {params.defaults:q} \
            --folder "$(dirname {output:q})" \
            >{log:q} 2>&1
        """


use rule compute_reference as compute_noise with:
    # The changes by reduced precision. Studies in fp32 alone do not need them.
    input:
        reference=f"results/parity/{TASK_OF_NETWORK}/reference.json",
        environment=ancient(environment_record("pytorch-cpu")),
    output:
        f"results/parity/{TASK_OF_NETWORK}/noise.json",
    log:
        f"results/logs/compute_noise/{TASK_OF_NETWORK}.log",
    # Only judging waits for it.
    priority: 1000000
    params:
        code=training.noise_code,
        defaults=parity.defaults,
        devices=parity.devices,
        module="rounding_noise",
        options=training.network_options,
        model_folder=training.model_folder,


rule leave_unchecked:
    """Record that a cell was not checked, because no study requires it. This needs no job with devices.

    On a cluster it waits for the probe, so that no run starts on devices that do not fit the machine file.
    """
    input:
        probe=ancient(parity.probe_of_unchecked),
    output:
        verdict="results/parity/{unchecked}.json",
    log:
        "results/logs/leave_unchecked/{unchecked}.log",
    wildcard_constraints:
        unchecked=parity.match_unchecked(),
    localrule: True
    params:
        code=hash_script("leave_unchecked"),
        files=products.files,
        values=give(cell=parity.unchecked_request),
    shell:
        "{HOWMANYGPUS}/leave_unchecked.py {params.files:q} {params.values:q} >{log:q} 2>&1"


rule observe_parity:
    """Start a framework once per layout of devices, and do the tasks of all cells of the group.

    A crash is a failed job, not a verdict: it is tried again, once in this call of Snakemake and in every later call.
    """
    input:
        references=parity.references,
        environment=ancient(parity.environment),
        probe=ancient(parity.probe),
        allreduces=ancient(parity.allreduces),
    output:
        record="results/parity/observed/{group}.json",
    log:
        "results/logs/observe_parity/{group}.log",
    priority: 1000001
    retries: 1
    threads: parity.num_gpus
    resources:
        **cluster.resources(parity.size, cluster.growth("observe_parity")),
        measurement=parity.measurement,
    params:
        code=parity.observing_code,
        defaults=parity.defaults,
        request=parity.group_request,
        layouts=parity.layouts,
        studies=parity.studies,
        placement=parity.placement,
    shell:
        r"""
        {HOWMANYGPUS}/observe_parity.py \
            --request {params.request:q} \
            --defaults {params.defaults:q} \
            --layouts {params.layouts:q} \
            --studies {params.studies:q} \
            --placement {params.placement:q} \
            --environment {input.environment:q} \
            --probe {input.probe:q} \
            --record {output.record:q} \
            >{log:q} 2>&1
        """


rule check_parity:
    """Judge one cell. A verdict in reduced precision or on compressed gradients requires the strict one."""
    input:
        observed=parity.observed,
        strict=parity.strict,
        noise=parity.noise,
        reference="results/parity/{task}/reference.json",
    output:
        verdict="results/parity/{task}/{checked}.json",
    log:
        "results/logs/check_parity/{task}/{checked}.log",
    wildcard_constraints:
        task=parity.match_task(),
    priority: 1000000
    localrule: True
    params:
        code=hash_script("check_parity"),
        files=products.files,
        values=give(cell=parity.request, key=parity.key, layouts=parity.cell_layouts),
    shell:
        "{HOWMANYGPUS}/check_parity.py {params.files:q} {params.values:q} >{log:q} 2>&1"


rule write_parity_page:
    input:
        verdicts=products.verdicts,
    output:
        table="results/tables/parity.tsv",
        page=report(
            "results/parity/parity.html",
            caption="../report/captions/parity.rst",
            category=number_category("The same work?"),
            subcategory="all studies",
            labels={"page": "Framework by check, with the numbers"},
        ),
    log:
        "results/logs/write_parity_page.log",
    localrule: True
    params:
        code=hash_script("write_parity_page"),
        files=products.files,
        values=give(planned=parity.planned),
    shell:
        "{HOWMANYGPUS}/write_parity_page.py {params.files:q} {params.values:q} >{log:q} 2>&1"
