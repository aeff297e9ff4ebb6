"""
Make tables from runs: one rule per module of workflow/lib/howmanygpus/report/tables/.

INPUTS   results/plans/{study}.json, results/runs/{study}/, results/attempts/{study}/ (for runs without an outcome),
         results/jobs/ (every job that used devices), results/probe/ (the preflight of a cluster)
         workflow/published/ (published numbers, for studies that are compared with some)
         results/batch_sizes/ (searches for the largest batch, for studies with `max`)
OUTPUTS  results/decisions/{study}.json (why runs of an adaptive study are not done)
         results/records/{study}.json (every record of a run or an attempt, with its hash)
         results/records/{study}.ledger.json (every job that used devices, with the times that SLURM counted)
         results/tables/{study}/{table}.tsv and answer.txt; those over all studies are in results/tables/

The table `runs` of a study has one row per planned run. Metrics are empty for runs without results.
"""


localrules:
    list_records,
    list_jobs,
    merge_tables,
    answer_question,
    merge_answers,
    write_decision,


rule write_decision:
    """Say why runs of an adaptive study are not done. Snakemake's process decided it when the call began."""
    output:
        decision="results/decisions/{study}.json",
    log:
        "results/logs/write_decision/{study}.log",
    params:
        code=hash_script("write_planned"),
        digest=lambda wildcards: deciding.hash_decision(PLAN, wildcards.study),
        planned=lambda wildcards: deciding.find_file(wildcards.study),
    shell:
        r"""
        PYTHONPATH=workflow/lib .venv/bin/python workflow/scripts/write_planned.py \
            --planned {params.planned:q} \
            --record {output.decision:q} \
            >{log:q} 2>&1
        """


rule list_records:
    """List all records in one small file, so that no table made from the runs needs thousands of inputs."""
    input:
        runs=products.records,
        attempts=products.attempts,
    output:
        records="results/records/{study}.json",
    log:
        "results/logs/list_records/{study}.log",
    params:
        code=hash_script("list_records"),
    shell:
        r"""
        PYTHONPATH=workflow/lib .venv/bin/python workflow/scripts/list_records.py \
            --study {wildcards.study} \
            --records {output.records:q} \
            >{log:q} 2>&1
        """


rule list_jobs:
    """Ask SLURM for how long ended jobs had their devices, and list all jobs in one file."""
    input:
        runs=products.records,
        attempts=products.attempts,
        verdicts=products.verdicts_of_study,
        preflight=products.preflight,
    output:
        ledger="results/records/{study}.ledger.json",
    log:
        "results/logs/list_jobs/{study}.log",
    params:
        code=hash_script("list_records"),
    shell:
        r"""
        PYTHONPATH=workflow/lib .venv/bin/python workflow/scripts/list_records.py \
            --study {wildcards.study} \
            --ledger {output.ledger:q} \
            >{log:q} 2>&1
        """


for table in tables.list_tables():

    described = tables.describe_table(table)

    rule:
        name:
            f"tabulate_{table}"
        input:
            plan="results/plans/{study}.json",
            tables=expand("results/tables/{{study}}/{table}.tsv", table=described.inputs),
            records="results/records/{study}.json" if described.reads_results else [],
            allreduces=products.allreduces if described.reads_allreduces else [],
            ledger="results/records/{study}.ledger.json" if described.reads_ledger else [],
            published=products.published if described.reads_published else [],
            decision=products.decision if described.reads_decision else [],
            searches=products.searches if described.reads_searches else [],
            failed_searches=products.failed_searches if described.reads_searches else [],
        output:
            table=(
                report(
                    f"results/tables/{{study}}/{table}.tsv",
                    caption=f"../report/{table}.rst",
                    category="{study}",
                    labels={"table": table},
                )
                if described.in_report
                else f"results/tables/{{study}}/{table}.tsv"
            ),
        log:
            f"results/logs/tabulate_{table}/{{study}}.log",
        localrule: True
        params:
            code=training.table_code(table, described.uses_metric),
            name=table,
            folder=subpath(output.table, parent=True),
        shell:
            r"""
            PYTHONPATH=workflow/lib .venv/bin/python workflow/scripts/make_table.py \
                --name {params.name} \
                --plan {input.plan:q} \
                --tables {params.folder:q} \
                --allreduces {input.allreduces:q} \
                --ledger {input.ledger:q} \
                --published {input.published:q} \
                --decision {input.decision:q} \
                --searches {input.searches:q} \
                --failed-searches {input.failed_searches:q} \
                --table {output.table:q} \
                >{log:q} 2>&1
            """


rule merge_tables:
    input:
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
    params:
        code=hash_script("merge_studies"),
    shell:
        r"""
        PYTHONPATH=workflow/lib .venv/bin/python workflow/scripts/merge_studies.py \
            --parts {input.parts:q} \
            --merged {output.table:q} \
            >{log:q} 2>&1
        """


rule answer_question:
    input:
        tables=expand(
            "results/tables/{{study}}/{table}.tsv",
            table=["runs", "scaling", "time_to_accuracy", "datasets", "jobs", "batch_sizes", "protocols"],
        ),
        decision=products.decision,
        batch_search=products.batch_search,
    output:
        answer=report(
            "results/tables/{study}/answer.txt",
            caption="../report/answer.rst",
            category="{study}",
            labels={"figure": "Answer: best framework and device count"},
        ),
    log:
        "results/logs/answer_question/{study}.log",
    params:
        code=hash_script("answer_question"),
        tables=subpath(output.answer, parent=True),
    shell:
        r"""
        PYTHONPATH=workflow/lib .venv/bin/python workflow/scripts/answer_question.py \
            --tables {params.tables:q} \
            --decision {input.decision:q} \
            --batch-search {input.batch_search:q} \
            --answer {output.answer:q} \
            >{log:q} 2>&1
        """


rule merge_answers:
    input:
        answers=expand("results/tables/{study}/answer.txt", study=PLAN.studies),
        jobs="results/tables/jobs.tsv",
    output:
        answer="results/tables/answer.txt",
    log:
        "results/logs/merge_answers.log",
    params:
        code=hash_script("merge_studies"),
    shell:
        r"""
        PYTHONPATH=workflow/lib .venv/bin/python workflow/scripts/merge_studies.py \
            --parts {input.answers:q} \
            --jobs {input.jobs:q} \
            --merged {output.answer:q} \
            >{log:q} 2>&1
        """
