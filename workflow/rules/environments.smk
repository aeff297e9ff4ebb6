"""
Build one virtual environment per framework and accelerator stack, in the cache, or take an interpreter that is there.

INPUTS   envs/{environment}.txt, envs/measured.txt (through the hash in the record's name)
OUTPUTS  results/environments/{environment}-{pins_hash}.json (where its Python is, and every package in it)
"""


rule build_environment:
    output:
        record="results/environments/{environment}-{pins_hash}.json",
    log:
        "results/logs/build_environment/{environment}-{pins_hash}.log",
    # Where a job could not download anything, this is done where Snakemake runs.
    localrule: not MACHINE.slurm["compute_nodes_have_network"]
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
            --record {output.record:q} \
            >{log:q} 2>&1
        """
