"""
Build one virtual environment per framework and accelerator stack, in the cache, or take an interpreter that is there.

INPUTS   envs/{environment}.txt, envs/measured.txt (through the hash in the record's name)
OUTPUTS  results/environments/{environment}-{pins_hash}.json (where its Python is, and every package in it)
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
    shell:
        r"""
        python workflow/scripts/fetch_wheels.py \
            --name {wildcards.environment:q} \
            --pins {params.pins:q} \
            --record {output.record:q} \
            >{log:q} 2>&1
        """


rule build_environment:
    input:
        wheels=get_wheels,
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
            --record {output.record:q} \
            >{log:q} 2>&1
        """
