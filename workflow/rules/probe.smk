"""
Look at a cluster's devices before the grid; on one machine there is nothing to look at.

INPUTS   the machine file
OUTPUTS  results/probe/{device}.json (a node of each kind of device), results/tables/probes.tsv
         results/probe/{device}_gpus{num_gpus}.json (its all-reduce), results/tables/{study}/allreduce.tsv
"""

PROBE_LIMIT_MIN = 10


def get_probe_size(wildcards):
    """Device, launcher, numbers of devices and nodes, and time limit of the probe: one whole node."""
    device = MACHINE.device(wildcards.device)
    return device, "plain", device.devices_per_node, 1, PROBE_LIMIT_MIN


def get_expectation(wildcards):
    device = MACHINE.device(wildcards.device)
    frameworks = {run.framework for run in PLAN.runs.values() if run.device == wildcards.device}
    return json.dumps(expectation(MACHINE, device, frameworks, find_longest_job(wildcards.device)))


def find_longest_job(device):
    """Longest time limit in minutes that a study asks for on a device, for the job's first attempt."""
    limits = [
        study.config["time_limit_min"]
        for study in PLAN.studies.values()
        if any(run.device == device for run in study.runs)
    ]
    return max(limits, default=0) + MACHINE.slurm["overhead_min"]


def get_allreduce_code(wildcards):
    return sorted({*code.script("measure_allreduce"), *code.find_code(code.module_file("trainbench.allreduce"))})


def get_allreduce_environment(wildcards):
    environments = FRAMEWORKS["pytorch_ddp"].environments
    return code.environment_record(environments[MACHINE.device(wildcards.device).kind])


def get_allreduce_cell(wildcards):
    device = MACHINE.device(wildcards.device)
    cell = {"device": wildcards.device, "device_kind": device.kind, "cores_per_device": device.cores_per_device}
    return json.dumps(
        cell | {"model": "none", "precision": "fp32", "batchnorm": "local", "loss_on_every_device": False}
    )


def get_allreduce_size(wildcards):
    device, num_gpus = MACHINE.device(wildcards.device), int(wildcards.num_gpus)
    return device, "torchrun", num_gpus, device.num_nodes(num_gpus), PROBE_LIMIT_MIN


def get_allreduce_records(wildcards):
    """One for every device and count above one of a study."""
    runs = get_study(wildcards).runs
    counts = sorted({(run.device, run.num_gpus) for run in runs if run.num_gpus > 1})
    return existing_if_available([f"results/probe/{device}_gpus{count}.json" for device, count in counts])


localrules:
    tabulate_probes,
    tabulate_allreduce,


rule probe_device:
    input:
        code=code.script("probe_device"),
    output:
        record="results/probe/{device}.json",
    log:
        "results/logs/probe_device/{device}.log",
    priority: 2000000
    conda:
        "../../envs/workflow.yaml"
    resources:
        **get_job_resources(get_probe_size),
    params:
        expected=get_expectation,
    shell:
        r"""
        python workflow/scripts/probe_device.py \
            --device {wildcards.device:q} \
            --expected {params.expected:q} \
            --record {output.record:q} \
            >{log:q} 2>&1
        """


rule tabulate_probes:
    input:
        code=code.script("tabulate_probes"),
        records=get_probes,
    output:
        probes=report(
            "results/tables/probes.tsv",
            caption="../report/probes.rst",
            category="Tables",
            labels={"table": "probes"},
        ),
    log:
        "results/logs/tabulate_probes.log",
    conda:
        "../../envs/workflow.yaml"
    shell:
        r"""
        python workflow/scripts/tabulate_probes.py \
            --records {input.records:q} \
            --probes {output.probes:q} \
            >{log:q} 2>&1
        """


rule measure_allreduce:
    input:
        code=get_allreduce_code,
        probe=ancient("results/probe/{device}.json"),
        environment=ancient(get_allreduce_environment),
    output:
        record="results/probe/{device}_gpus{num_gpus}.json",
    log:
        "results/logs/measure_allreduce/{device}_gpus{num_gpus}.log",
    priority: 1500000
    conda:
        "../../envs/workflow.yaml"
    resources:
        **get_job_resources(get_allreduce_size),
        measurement=100,
    params:
        cell=get_allreduce_cell,
        num_nodes=lambda wildcards: MACHINE.device(wildcards.device).num_nodes(int(wildcards.num_gpus)),
        placement=lambda wildcards, input: get_placement(wildcards.device),
    shell:
        r"""
        python workflow/scripts/measure_allreduce.py \
            --device {wildcards.device:q} \
            --cell {params.cell:q} \
            --num-devices {wildcards.num_gpus} \
            --num-nodes {params.num_nodes} \
            --placement {params.placement:q} \
            --environment {input.environment:q} \
            --record {output.record:q} \
            >{log:q} 2>&1
        """


rule tabulate_allreduce:
    input:
        code=code.script("tabulate_allreduce"),
        records=get_allreduce_records,
    output:
        allreduce="results/tables/{study}/allreduce.tsv",
    log:
        "results/logs/tabulate_allreduce/{study}.log",
    conda:
        "../../envs/workflow.yaml"
    shell:
        r"""
        python workflow/scripts/tabulate_allreduce.py \
            --records {input.records:q} \
            --allreduce {output.allreduce:q} \
            >{log:q} 2>&1
        """
