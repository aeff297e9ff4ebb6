"""
Draw figures from tables: one rule per module of workflow/lib/howmanygpus/report/figures/.

INPUTS   results/tables/{study}/
OUTPUTS  results/figures/{study}/{figure}.svg and .png
"""

for figure in figures.list_figures():

    described = figures.describe_figure(figure)

    rule:
        name:
            f"draw_{figure}"
        input:
            tables=expand("results/tables/{{study}}/{table}.tsv", table=described.tables),
            decision=products.decision,
        output:
            svg=report(
                f"results/figures/{{study}}/{figure}.svg",
                caption=f"../report/{figure}.rst",
                category="{study}",
                labels={"figure": described.title},
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
            PYTHONPATH=workflow/lib .venv/bin/python workflow/scripts/draw_figure.py \
                --figure {params.figure:q} \
                --tables {params.tables:q} \
                --svg {output.svg:q} \
                --png {output.png:q} \
                --decision {input.decision:q} \
                >{log:q} 2>&1
            """
