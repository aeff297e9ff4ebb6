"""
Look at a cluster's devices before the grid; on one machine there is nothing to look at.

INPUTS   the machine file
OUTPUTS  results/probe/{device}.json (a node of each kind of device), results/tables/probes.tsv
         results/probe/{device}_gpus{num_gpus}.json (its all-reduce), results/tables/{study}/allreduce.tsv
"""


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
