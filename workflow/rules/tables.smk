"""
Make tables from runs, by the modules of workflow/lib/howmanygpus/report/tables/.

INPUTS   results/plans/{study}.json, results/runs/{study}/, results/attempts/{study}/ (for runs without an outcome),
         results/jobs/ (every job that used devices), results/probe/ (the preflight of a cluster)
         workflow/published/ (published numbers, for studies that are compared with some)
         results/batch_sizes/ (searches for the largest batch, for studies with `max`)
OUTPUTS  results/decisions/{study}.json (why runs of an adaptive study are not done)
         results/records/{study}.ledger.json (every job that used devices, with the times that SLURM counted)
         results/tables/{study}/{table}.tsv, answer.txt and answer.md; those over all studies are in results/tables/

The table `runs` of a study has one row per planned run. Metrics are empty for runs without results.
"""


rule write_decision:
    """Say why runs of an adaptive study are not done. Snakemake's process decided it when the call began."""
    output:
        record="results/decisions/{study}.json",
    log:
        "results/logs/write_decision/{study}.log",
    localrule: True
    params:
        code=hash_script("write_planned"),
        digest=lambda wildcards: deciding.hash_decision(PLAN, wildcards.study),
        files=products.files,
        values=give(planned=lambda wildcards: str(deciding.find_file(wildcards.study))),
    shell:
        "{HOWMANYGPUS}/write_planned.py {params.files:q} {params.values:q} >{log:q} 2>&1"


rule list_jobs:
    """Ask SLURM for how long ended jobs had their devices, and list all jobs in one file."""
    input:
        results=products.jobs,
    output:
        ledger="results/records/{study}.ledger.json",
    log:
        "results/logs/list_jobs/{study}.log",
    localrule: True
    params:
        code=hash_script("list_jobs"),
        files=products.files,
    shell:
        "{HOWMANYGPUS}/list_jobs.py {params.files:q} >{log:q} 2>&1"


TABLE_TEMPLATES = ("doubts.jinja", "explanations.jinja", "health.jinja", "network.jinja", "tables.jinja")
"""Templates with words in cells of tables."""


rule make_tables:
    """Make the tables that every study has, in one process, because starting one takes longer than most tables."""
    input:
        unpack(products.sources(*tables.list_common())),
        plan="results/plans/{study}.json",
    output:
        tables=expand("results/tables/{{study}}/{table}.tsv", table=tables.list_common()),
    log:
        "results/logs/make_tables/{study}.log",
    localrule: True
    params:
        code=training.table_code(tables.list_common(), uses_metric=True),
        # The table of the decision says why there is none.
        templates=hash_templates(*TABLE_TEMPLATES),
        files=products.files,
    shell:
        "{HOWMANYGPUS}/make_tables.py {params.files:q} >{log:q} 2>&1"


for table in [name for name in tables.list_tables() if name not in tables.list_common()]:

    described = tables.describe_table(table)

    rule:
        name:
            f"tabulate_{table}"
        input:
            unpack(products.sources(table)),
            plan="results/plans/{study}.json",
            tables=expand("results/tables/{{study}}/{table}.tsv", table=described.inputs),
        output:
            tables=[f"results/tables/{{study}}/{table}.tsv"],
        log:
            f"results/logs/tabulate_{table}/{{study}}.log",
        localrule: True
        params:
            code=training.table_code([table], described.uses_metric),
            templates=hash_templates(*TABLE_TEMPLATES),
            files=products.files,
            values=give(published=products.published if "published" in described.reads else []),
        shell:
            "{HOWMANYGPUS}/make_tables.py {params.files:q} {params.values:q} >{log:q} 2>&1"


rule merge_tables:
    input:
        results=expand("results/tables/{study}/{table}.tsv", study=PLAN.studies, table=tables.list_merged()),
    output:
        tables=expand("results/tables/{table}.tsv", table=tables.list_merged()),
    log:
        "results/logs/merge_tables.log",
    localrule: True
    params:
        code=hash_script("merge_tables"),
        files=products.files,
        values=give(studies=list(PLAN.studies)),
    shell:
        "{HOWMANYGPUS}/merge_tables.py {params.files:q} {params.values:q} >{log:q} 2>&1"


rule answer_question:
    """Write the answer as facts and texts and, on a cluster, the batch script of the recommended configuration."""
    input:
        plan="results/plans/{study}.json",
        tables=expand(
            "results/tables/{{study}}/{table}.tsv",
            table=[
                "runs",
                "scaling",
                "time_to_accuracy",
                "datasets",
                "jobs",
                "batch_sizes",
                "protocols",
                "explanations",
                "losses",
                "utilisation",
            ],
        ),
        decision=products.decision,
        batch_search=products.batch_search,
        predictions=products.predictions,
        allreduce=products.allreduce_table,
    output:
        answer=report(
            "results/tables/{study}/answer.txt",
            caption="../report/captions/answer.rst",
            category=number_category("Decision"),
            subcategory="{study}",
            labels={"page": "Answer: best framework and device count"},
        ),
        markdown="results/tables/{study}/answer.md",
        facts="results/tables/{study}/answer.json",
        result="results/tables/{study}/result.json",
        batch_script=["results/tables/{study}/run.sbatch"] if PLAN.machine.submits else [],
    log:
        "results/logs/answer_question/{study}.log",
    localrule: True
    params:
        code=hash_script("answer_question"),
        templates=hash_templates(
            *("answer.jinja", "answer_screen.txt.jinja", "answer.txt.jinja", "answer.md.jinja"),
            "answer_sections.jinja",
            *("doubts.jinja", "predicted.jinja", "tables.jinja"),
        ),
        files=products.files,
        values=give(machine=products.machine_file()),
        account=products.account,
    shell:
        "{HOWMANYGPUS}/answer_question.py {params.files:q} {params.values:q} {params.account:q} >{log:q} 2>&1"


rule write_run_script:
    """Write the batch script that does one run without Snakemake. The target `batch_scripts` asks for those of all."""
    input:
        data=training.data,
        weights=training.weights,
        environment=ancient(training.environment),
        verdict=ancient(training.verdict),
        probe=ancient(training.probe),
    output:
        script="results/scripts/{run}.sbatch",
    log:
        "results/logs/write_run_script/{run}.log",
    localrule: True
    params:
        code=hash_script("write_run_script"),
        requested=training.requested,
        settings=training.settings,
        launch=training.launch,
    shell:
        r"""
        {HOWMANYGPUS}/write_run_script.py \
            --script {output.script:q} \
            --run {wildcards.run:q} \
            --requested {params.requested:q} \
            -- \
            --settings {params.settings:q} \
            --data {input.data:q} \
            --weights {input.weights:q} \
            --environment {input.environment:q} \
            --verdict {input.verdict:q} \
            --launch {params.launch:q} \
            >{log:q} 2>&1
        """


rule propose:
    """Write what a proposal for computing time says about a study."""
    input:
        plan="results/plans/{study}.json",
        facts="results/tables/{study}/answer.json",
        batch_script=["results/tables/{study}/run.sbatch"] if PLAN.machine.submits else [],
        tables=expand("results/tables/{{study}}/{table}.tsv", table=["runs", "scaling", "utilisation"]),
        predictions=products.predictions,
    output:
        folder=directory("results/proposal/{study}"),
    log:
        "results/logs/propose/{study}.log",
    localrule: True
    params:
        code=hash_script("write_proposal"),
        templates=hash_templates(
            *("predicted.jinja", "proposal.md.jinja", "proposal.tex.jinja", "proposal.txt.jinja"),
            "strategies.jinja",
        ),
        files=products.files,
    shell:
        "{HOWMANYGPUS}/write_proposal.py {params.files:q} >{log:q} 2>&1"


rule merge_answers:
    input:
        texts=expand("results/tables/{study}/answer.txt", study=PLAN.studies),
        markdowns=expand("results/tables/{study}/answer.md", study=PLAN.studies),
        facts=expand("results/tables/{study}/answer.json", study=PLAN.studies),
        jobs="results/tables/jobs.tsv",
    output:
        texts="results/tables/answer.txt",
        markdowns="results/tables/answer.md",
    log:
        "results/logs/merge_answers.log",
    localrule: True
    params:
        code=hash_script("merge_answers"),
        templates=hash_templates("answer.jinja", "answers_screen.txt.jinja", "bill.jinja"),
        files=products.files,
    shell:
        "{HOWMANYGPUS}/merge_answers.py {params.files:q} >{log:q} 2>&1"
