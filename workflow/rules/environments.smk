"""
Build one virtual environment per framework and accelerator stack in the cache, or use an existing interpreter.

INPUTS   envs/{environment}.txt and what it includes (through the hash in the record's name)
OUTPUTS  results/environments/{environment}-{pins_hash}.json (path of its Python, and all its packages)
         results/environments/{environment}-{pins_hash}.horovod.json (the wheel that was built for it)
         results/environments/{environment}-{pins_hash}.wheels.json (its wheels, if jobs cannot fetch them)
"""


rule fetch_wheels:
    output:
        record="results/environments/{environment}-{pins_hash}.wheels.json",
    log:
        "results/logs/fetch_wheels/{environment}-{pins_hash}.log",
    localrule: True
    params:
        pins=environments.pins,
        tools=environments.horovod_tools,
        source=environments.horovod_source,
    shell:
        r"""
        {HOWMANYGPUS}/fetch_wheels.py \
            --name {wildcards.environment:q} \
            --pins {params.pins:q} \
            --tools {params.tools:q} \
            --source {params.source:q} \
            --record {output.record:q} \
            >{log:q} 2>&1
        """


rule build_horovod:
    input:
        base=environments.horovod_base,
        wheels=environments.wheels,
    output:
        record="results/environments/{environment}-{pins_hash}.horovod.json",
    log:
        "results/logs/build_horovod/{environment}-{pins_hash}.log",
    threads: 4
    resources:
        # Each compiler process needs up to 1.5 GB.
        mem_mb=8000,
    params:
        family=environments.horovod_family,
        device=environments.horovod_device,
        tools=environments.horovod_tools,
        source=environments.horovod_source,
    shell:
        r"""
        {HOWMANYGPUS}/build_horovod.py \
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
        wheels=environments.wheels,
        horovod=environments.horovod,
    output:
        record="results/environments/{environment}-{pins_hash}.json",
    log:
        "results/logs/build_environment/{environment}-{pins_hash}.log",
    params:
        pins=environments.pins,
        existing=environments.existing,
    shell:
        r"""
        {HOWMANYGPUS}/build_environment.py \
            --name {wildcards.environment:q} \
            --pins {params.pins:q} \
            --existing {params.existing:q} \
            --wheels {input.wheels:q} \
            --horovod {input.horovod:q} \
            --record {output.record:q} \
            >{log:q} 2>&1
        """
