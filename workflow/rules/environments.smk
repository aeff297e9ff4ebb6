"""
Build one virtual environment per framework and accelerator stack, in the cache.

INPUTS   envs/{environment}.txt, envs/measured.txt
OUTPUTS  results/environments/{environment}.json (where its Python is, and every package in it)
"""


rule build_environment:
    input:
        pins="envs/{environment}.txt",
        measured="envs/measured.txt",
    output:
        record="results/environments/{environment}.json",
    log:
        "results/logs/build_environment/{environment}.log",
    conda:
        "../../envs/workflow.yaml"
    shell:
        r"""
        python workflow/scripts/build_environment.py \
            --name {wildcards.environment:q} \
            --pins {input.pins:q} {input.measured:q} \
            --record {output.record:q} \
            >{log:q} 2>&1
        """
