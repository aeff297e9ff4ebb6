"""
Draw figures from tables, by the modules of workflow/lib/howmanygpus/report/figures/, and write the pages of tables.

INPUTS   results/tables/{study}/, results/tables/
OUTPUTS  results/figures/{study}/{figure}.svg and .png
         results/pages/ (a page to sort and filter for each table that has something to show)
         results/all_runs.html (the page of all runs, with the record of each)
"""

# One process draws all figures of a study, because starting it takes longer than a figure. What draws those of a study
# again follows from these figures alone, so that a study with others beside it changes nothing.
for drawn, studies in products.group_by_figures().items():

    name = "draw_figures" if studies[0] == next(iter(PLAN.studies)) else f"draw_figures_of_{studies[0]}"

    rule:
        name:
            name
        input:
            tables=expand("results/tables/{{study}}/{table}.tsv", table=figures.list_needed(drawn)),
            decision=products.decision,
            predictions=(
                products.predictions if any(figures.describe_figure(each).shows_predicted for each in drawn) else []
            ),
        output:
            svg=[
                report(
                    f"results/figures/{{study}}/{figure}.svg",
                    caption=f"../report/captions/{figure}.rst",
                    category=number_category(figures.describe_figure(figure).category),
                    subcategory="{study}",
                    labels={"page": figures.describe_figure(figure).title},
                )
                for figure in drawn
            ],
            png=expand("results/figures/{{study}}/{figure}.png", figure=drawn),
        log:
            f"results/logs/{name}/{{study}}.log",
        wildcard_constraints:
            study="|".join(studies),
        localrule: True
        threads: min(4, len(drawn))
        params:
            code=hash_script("draw_figures", *(f"report.figures.{figure}" for figure in drawn)),
            templates=hash_templates("tables.jinja"),
            files=products.files,
        shell:
            "{HOWMANYGPUS}/draw_figures.py {params.files:q} '{{\"threads\": {threads}}}' >{log:q} 2>&1"


rule draw_run:
    """Draw the timeline of one run that exists, or of the last attempt at one: snakemake results/timelines/RUN.svg."""
    output:
        figure="results/timelines/{run}.svg",
    log:
        "results/logs/draw_run/{run}.log",
    localrule: True
    params:
        code=hash_script("draw_run"),
        files=products.files,
        values=give(record=products.record_of_run),
        finished=products.hash_record_of_run,
    shell:
        "{HOWMANYGPUS}/draw_run.py {params.files:q} {params.values:q} >{log:q} 2>&1"


TABLE_PAGE = ("table.html.jinja", "table.css", "table.js")
"""The template of all pages with a table to sort and filter."""


rule write_table_pages:
    """Write a page for each table of the report that has something to show."""
    input:
        tables=products.paged_tables(),
    output:
        pages=report(
            directory("results/pages"),
            patterns=["{scope}/{table}.html"],
            caption="../report/captions/tables.rst",
            category=lambda wildcards: number_category(table_pages.name_category(wildcards.table)),
            subcategory=lambda wildcards: "all studies" if wildcards.scope == table_pages.ALL else wildcards.scope,
            labels={"page": "Table {table}"},
        ),
    log:
        "results/logs/write_table_pages.log",
    localrule: True
    params:
        code=hash_script("write_table_pages"),
        parts=hash_templates(*TABLE_PAGE),
        described=hash_templates(*table_pages.list_described(products.paged_tables())),
        files=products.files,
    shell:
        "{HOWMANYGPUS}/write_table_pages.py {params.files:q} >{log:q} 2>&1"


rule write_all_runs:
    """Write the page of all runs. It reads the records of the runs in the table, which changes if they do."""
    input:
        runs="results/tables/runs.tsv",
        scaling="results/tables/scaling.tsv",
        timelines=expand("results/tables/{study}/timelines.tsv", study=PLAN.studies),
    output:
        page=report(
            "results/all_runs.html",
            caption="../report/captions/all_runs.rst",
            category=number_category("Every run"),
            subcategory="all studies",
            labels={"page": "Every run, with its record and a figure of all rates"},
        ),
    log:
        "results/logs/write_all_runs.log",
    localrule: True
    params:
        code=hash_script("write_all_runs"),
        parts=hash_templates("all_runs.html.jinja", "all_runs.css", "all_runs.js", *TABLE_PAGE),
        files=products.files,
    shell:
        "{HOWMANYGPUS}/write_all_runs.py {params.files:q} >{log:q} 2>&1"
