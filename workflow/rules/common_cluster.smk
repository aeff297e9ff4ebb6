"""
Answer the rules' questions about jobs: what they ask the scheduler for, and how processes start in them.
"""

from benchplan.frameworks import FRAMEWORKS
from benchplan.slurm import expectation, job_resources, list_resources, placement

GATE_LIMIT_MIN = 30
"""Of the parity gate; resnet44 in every layout takes a few minutes."""
PROBE_LIMIT_MIN = 10
"""Of the probe, and of the all-reduce."""


def get_wheels(wildcards):
    """Wheels fetched beforehand, where environments are built in jobs without a network."""
    if MACHINE.slurm["compute_nodes_have_network"] or wildcards.environment in MACHINE.environments:
        return []
    return f"results/environments/{wildcards.environment}-{wildcards.pins_hash}.wheels.json"


def get_horovod(wildcards):
    """The wheel of Horovod that was built for an environment, where there is one in it."""
    if code.horovod_base(wildcards.environment) is None or wildcards.environment in MACHINE.environments:
        return []
    return f"results/environments/{wildcards.environment}-{wildcards.pins_hash}.horovod.json"


def get_horovod_base(wildcards):
    return code.environment_record(code.horovod_base(wildcards.environment))


def get_horovod_framework(wildcards):
    return next(entry for entry in FRAMEWORKS.values() if wildcards.environment in entry.environments.values())


def get_job_resources(get_size):
    """Resources of a rule's jobs on devices. get_size: a function from wildcards to the size of one.

    On this machine only the time limit; on a cluster all that benchplan.slurm asks for.
    """

    def ask(resource):
        def get(wildcards, attempt):
            return job_resources(MACHINE, *get_size(wildcards), attempt)[resource]

        return get

    return {resource: ask(resource) for resource in list_resources(MACHINE)}


def get_run_size(wildcards):
    """Device, launcher, numbers of devices and nodes, and time limit in minutes of a run."""
    run, device = get_run(wildcards), MACHINE.device(get_run(wildcards).device)
    limit_min = get_study(wildcards).config["time_limit_min"]
    return device, FRAMEWORKS[run.framework].launcher, run.num_gpus, device.num_nodes(run.num_gpus), limit_min


def get_gate_size(wildcards):
    """The same of the parity gate: the most devices a node and the most nodes of all its layouts."""
    cell = get_parity_cell(wildcards)
    layouts = [tuple(map(int, layout.split("x"))) for layout in get_parity_layouts(wildcards)]
    num_nodes = max(nodes for _, nodes in layouts)
    num_gpus = num_nodes * max(devices // nodes for devices, nodes in layouts)
    return MACHINE.device(cell.device), FRAMEWORKS[cell.framework].launcher, num_gpus, num_nodes, GATE_LIMIT_MIN


def get_placement(device):
    return placement(MACHINE, MACHINE.device(device))


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
