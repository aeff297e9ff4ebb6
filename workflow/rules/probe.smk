"""
Probe a cluster's devices before any run starts, and measure the all-reduce of gradients for studies with `diagnose`.

On a single machine only the latter is used. Each record says what carried the gradients and what the link could do.

INPUTS   the machine file, results/weights/
OUTPUTS  results/probe/{device}.json (findings on one node for each kind of device), results/tables/probes.tsv
         results/probe/{device}_gpus{num_gpus}{spread}.json (its all-reduce times, from which tables.smk makes a table)
         results/probe/{device}_gpus{num_gpus}{spread}_{weights}.json (those of as many bytes as a network's gradients)
"""


rule probe_device:
    """Probe a node. The job fails if runs would not work there, and everything on the device waits for its record."""
    output:
        record="results/probe/{device}.json",
    log:
        "results/logs/probe_device/{device}.log",
    priority: 2000000
    # A second job would find the same node.
    retries: 0
    resources:
        **cluster.resources(cluster.probe_size, cluster.growth("probe_device")),
    params:
        code=hash_script("probe_device"),
        expected=cluster.expectation,
        studies=products.studies_on_device,
    shell:
        r"""
        {HOWMANYGPUS}/probe_device.py \
            --device {wildcards.device:q} \
            --expected {params.expected:q} \
            --studies {params.studies:q} \
            --record {output.record:q} \
            >{log:q} 2>&1
        """


rule tabulate_probes:
    input:
        records=products.probes,
        links=products.preflight_allreduces,
    output:
        probes="results/tables/probes.tsv",
    log:
        "results/logs/tabulate_probes.log",
    localrule: True
    params:
        code=hash_script("tabulate_probes"),
        templates=hash_templates("network.jinja"),
        files=products.files,
    shell:
        "{HOWMANYGPUS}/tabulate_probes.py {params.files:q} >{log:q} 2>&1"


rule measure_allreduce:
    input:
        probe=ancient("results/probe/{device}.json"),
        environment=ancient(cluster.allreduce_environment),
    output:
        record="results/probe/{device}_gpus{num_gpus}{spread}.json",
    log:
        "results/logs/measure_allreduce/{device}_gpus{num_gpus}{spread}.log",
    priority: 1500000
    resources:
        **cluster.resources(cluster.allreduce_size, cluster.growth("measure_allreduce")),
        measurement=100,
    params:
        code=cluster.allreduce_code,
        device=cluster.allreduce_device,
        num_nodes=cluster.num_nodes,
        placement=cluster.placement,
        link=cluster.link,
        judge=cluster.judge,
        studies=products.studies_of_allreduce,
    shell:
        r"""
        {HOWMANYGPUS}/measure_allreduce.py \
            --device {params.device:q} \
            --num-devices {wildcards.num_gpus} \
            --num-nodes {params.num_nodes} \
            --placement {params.placement:q} \
            --studies {params.studies:q} \
            --environment {input.environment:q} \
            --link {params.link:q} \
            --judge {params.judge:q} \
            --record {output.record:q} \
            >{log:q} 2>&1
        """


rule measure_gradient_allreduce:
    """Measure the exchange of as many bytes as a network's gradients have, in turn with runs if on one machine."""
    input:
        probe=ancient(cluster.probe_of_device),
        environment=ancient(cluster.allreduce_environment),
        weights=ancient(cluster.gradients),
    output:
        record="results/probe/{device}_gpus{num_gpus}{spread}_{weights}.json",
    log:
        "results/logs/measure_gradient_allreduce/{device}_gpus{num_gpus}{spread}_{weights}.log",
    priority: 1500000
    resources:
        **cluster.resources(cluster.allreduce_size, cluster.growth("measure_gradient_allreduce")),
        measurement=100,
    params:
        code=cluster.allreduce_code,
        device=cluster.allreduce_device,
        num_nodes=cluster.num_nodes,
        placement=cluster.placement,
        link=cluster.link,
        judge=cluster.judge,
        studies=products.studies_of_allreduce,
    shell:
        r"""
        {HOWMANYGPUS}/measure_allreduce.py \
            --device {params.device:q} \
            --num-devices {wildcards.num_gpus} \
            --num-nodes {params.num_nodes} \
            --placement {params.placement:q} \
            --studies {params.studies:q} \
            --environment {input.environment:q} \
            --link {params.link:q} \
            --judge {params.judge:q} \
            --weights {input.weights:q} \
            --record {output.record:q} \
            >{log:q} 2>&1
        """
