"""
Draw figures from tables: one rule per module of workflow/lib/howmanygpus/report/figures/.

INPUTS   results/tables/{study}/
OUTPUTS  results/figures/{study}/{figure}.svg and .png
"""

for figure in figures.list_figures():

    rule:
        name:
            f"draw_{figure}"
        input:
            tables=expand(
                "results/tables/{{study}}/{table}.tsv",
                table=figures.describe_figure(figure)["TABLES"],
            ),
        output:
            svg=report(
                f"results/figures/{{study}}/{figure}.svg",
                caption=f"../report/{figure}.rst",
                category="{study}",
                labels={"figure": figures.describe_figure(figure)["TITLE"]},
            ),
            png=f"results/figures/{{study}}/{figure}.png",
        log:
            f"results/logs/draw_figure/{{study}}/{figure}.log",
        localrule: True
        params:
            code=hash_script("draw_figure", f"report.figures.{figure}"),
            figure=figure,
            tables=lambda wildcards, input: str(Path(input.tables[0]).parent),
        shell:
            r"""
            {RUN} workflow/scripts/draw_figure.py \
                --figure {params.figure:q} \
                --tables {params.tables:q} \
                --svg {output.svg:q} \
                --png {output.png:q} \
                >{log:q} 2>&1
            """
