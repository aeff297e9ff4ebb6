"""
Make tables from runs.

INPUTS   results/plans/{study}.json, results/runs/{study}/
OUTPUTS  results/tables/{study}/{runs,evaluations,losses,scaling,time_to_accuracy,variants}.tsv, the same of all
         studies in results/tables/, and the answer in words

A study's tables have one row per planned run, and metrics only where a run happened.
"""


localrules:
    collect_runs,
    collect_losses,
    compute_scaling,
    compute_variants,
    compute_time_to_accuracy,
    merge_tables,
    answer_question,
    merge_answers,


rule collect_runs:
    input:
        code=get_collecting_code,
        plan="results/plans/{study}.json",
        runs=get_records,
    output:
        runs="results/tables/{study}/runs.tsv",
        evaluations="results/tables/{study}/evaluations.tsv",
    log:
        "results/logs/collect_runs/{study}.log",
    conda:
        "../../envs/workflow.yaml"
    shell:
        r"""
        python workflow/scripts/collect_runs.py \
            --plan {input.plan:q} \
            --runs {output.runs:q} \
            --evaluations {output.evaluations:q} \
            >{log:q} 2>&1
        """


rule collect_losses:
    input:
        code=code.script("collect_losses"),
        plan="results/plans/{study}.json",
        runs=get_records,
    output:
        losses="results/tables/{study}/losses.tsv",
    log:
        "results/logs/collect_losses/{study}.log",
    conda:
        "../../envs/workflow.yaml"
    shell:
        r"""
        python workflow/scripts/collect_losses.py \
            --plan {input.plan:q} \
            --losses {output.losses:q} \
            >{log:q} 2>&1
        """


rule compute_scaling:
    input:
        code=code.script("compute_scaling"),
        plan="results/plans/{study}.json",
        runs="results/tables/{study}/runs.tsv",
    output:
        scaling="results/tables/{study}/scaling.tsv",
    log:
        "results/logs/compute_scaling/{study}.log",
    conda:
        "../../envs/workflow.yaml"
    shell:
        r"""
        python workflow/scripts/compute_scaling.py \
            --plan {input.plan:q} \
            --runs {input.runs:q} \
            --scaling {output.scaling:q} \
            >{log:q} 2>&1
        """


rule compute_variants:
    input:
        code=code.script("compute_variants"),
        plan="results/plans/{study}.json",
        runs="results/tables/{study}/runs.tsv",
    output:
        variants="results/tables/{study}/variants.tsv",
    log:
        "results/logs/compute_variants/{study}.log",
    conda:
        "../../envs/workflow.yaml"
    shell:
        r"""
        python workflow/scripts/compute_variants.py \
            --plan {input.plan:q} \
            --runs {input.runs:q} \
            --variants {output.variants:q} \
            >{log:q} 2>&1
        """


rule compute_time_to_accuracy:
    input:
        code=get_thresholding_code,
        plan="results/plans/{study}.json",
        runs="results/tables/{study}/runs.tsv",
        evaluations="results/tables/{study}/evaluations.tsv",
    output:
        time_to_accuracy="results/tables/{study}/time_to_accuracy.tsv",
    log:
        "results/logs/compute_time_to_accuracy/{study}.log",
    conda:
        "../../envs/workflow.yaml"
    shell:
        r"""
        python workflow/scripts/compute_time_to_accuracy.py \
            --plan {input.plan:q} \
            --runs {input.runs:q} \
            --evaluations {input.evaluations:q} \
            --time-to-accuracy {output.time_to_accuracy:q} \
            >{log:q} 2>&1
        """


rule merge_tables:
    input:
        code=code.script("merge_tables"),
        parts=expand("results/tables/{study}/{{table}}.tsv", study=PLAN.studies),
    output:
        table=report(
            "results/tables/{table}.tsv",
            caption="../report/tables.rst",
            category="Tables",
            labels={"table": "{table}"},
        ),
    log:
        "results/logs/merge_tables/{table}.log",
    conda:
        "../../envs/workflow.yaml"
    shell:
        r"""
        python workflow/scripts/merge_tables.py \
            --parts {input.parts:q} \
            --table {output.table:q} \
            >{log:q} 2>&1
        """


rule answer_question:
    input:
        code=code.script("answer_question"),
        runs="results/tables/{study}/runs.tsv",
        scaling="results/tables/{study}/scaling.tsv",
        time_to_accuracy="results/tables/{study}/time_to_accuracy.tsv",
    output:
        answer=report(
            "results/tables/{study}/answer.txt",
            caption="../report/answer.rst",
            category="{study}",
            labels={"figure": "Answer: best framework and device count"},
        ),
    log:
        "results/logs/answer_question/{study}.log",
    conda:
        "../../envs/workflow.yaml"
    shell:
        r"""
        python workflow/scripts/answer_question.py \
            --runs {input.runs:q} \
            --scaling {input.scaling:q} \
            --time-to-accuracy {input.time_to_accuracy:q} \
            --answer {output.answer:q} \
            >{log:q} 2>&1
        """


rule merge_answers:
    input:
        answers=expand("results/tables/{study}/answer.txt", study=PLAN.studies),
    output:
        answer="results/tables/answer.txt",
    log:
        "results/logs/merge_answers.log",
    conda:
        "../../envs/workflow.yaml"
    shell:
        "cat {input.answers:q} > {output.answer:q} 2> {log:q}"
