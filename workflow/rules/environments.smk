"""
Build one virtual environment per framework and accelerator stack, in the cache, or take an interpreter that is there.

INPUTS   envs/{environment}.txt and what it includes (through the hash in the record's name)
OUTPUTS  results/environments/{environment}-{pins_hash}.json (where its Python is, and every package in it)
         results/environments/{environment}-{pins_hash}.horovod.json (the wheel that was built for it)
         results/environments/{environment}-{pins_hash}.wheels.json (its wheels, where jobs could not fetch them)
"""


localrules:
    fetch_wheels,


rule fetch_wheels:
    output:
        record="results/environments/{environment}-{pins_hash}.wheels.json",
    log:
        "results/logs/fetch_wheels/{environment}-{pins_hash}.log",
    conda:
        "../../envs/workflow.yaml"
    params:
        pins=lambda wildcards: code.environment_pins(wildcards.environment),
        tools=lambda wildcards: (
            code.horovod_tools(wildcards.environment) if code.horovod_base(wildcards.environment) else []
        ),
        source=lambda wildcards: code.HOROVOD_SOURCE if code.horovod_base(wildcards.environment) else [],
    shell:
        r"""
        python workflow/scripts/fetch_wheels.py \
            --name {wildcards.environment:q} \
            --pins {params.pins:q} \
            --tools {params.tools:q} \
            --source {params.source:q} \
            --record {output.record:q} \
            >{log:q} 2>&1
        """


rule build_horovod:
    input:
        base=get_horovod_base,
        wheels=get_wheels,
    output:
        record="results/environments/{environment}-{pins_hash}.horovod.json",
    log:
        "results/logs/build_horovod/{environment}-{pins_hash}.log",
    conda:
        "../../envs/workflow.yaml"
    threads: 4
    resources:
        # A compiler takes up to 1.5 GB.
        mem_mb=8000,
    params:
        family=lambda wildcards: get_horovod_framework(wildcards).family,
        device=lambda wildcards: "cpu" if wildcards.environment.endswith("-cpu") else "cuda",
        tools=lambda wildcards: code.horovod_tools(wildcards.environment),
        source=code.HOROVOD_SOURCE,
    shell:
        r"""
        python workflow/scripts/build_horovod.py \
            --base {input.base:q} \
            --wheels {input.wheels:q} \
            --family {params.family} \
            --device {params.device} \
            --tools {params.tools:q} \
            --source {params.source:q} \
            --jobs {threads} \
            --record {output.record:q} \
            >{log:q} 2>&1
        """


rule build_environment:
    input:
        wheels=get_wheels,
        horovod=get_horovod,
    output:
        record="results/environments/{environment}-{pins_hash}.json",
    log:
        "results/logs/build_environment/{environment}-{pins_hash}.log",
    conda:
        "../../envs/workflow.yaml"
    params:
        pins=lambda wildcards: code.environment_pins(wildcards.environment),
        existing=lambda wildcards: json.dumps(code.EXISTING.get(wildcards.environment)),
    shell:
        r"""
        python workflow/scripts/build_environment.py \
            --name {wildcards.environment:q} \
            --pins {params.pins:q} \
            --existing {params.existing:q} \
            --wheels {input.wheels:q} \
            --horovod {input.horovod:q} \
            --record {output.record:q} \
            >{log:q} 2>&1
        """
