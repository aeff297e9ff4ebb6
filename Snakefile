"""
Which framework, how many GPUs, which batch size, at what cost?

    raw -> prepared -> runs -> tables -> figures -> report

Everything asked for by the config is the target `all`; `available` builds tables and figures from the runs that
exist; each study is a target of its own name.
"""

from snakemake.utils import min_version

min_version("9.26")


report: "workflow/report/workflow.rst"


include: "workflow/rules/config.smk"
include: "workflow/rules/common.smk"
include: "workflow/rules/wildcards.smk"
include: "workflow/rules/environments.smk"
include: "workflow/rules/prepare.smk"
include: "workflow/rules/weights.smk"
include: "workflow/rules/probe.smk"
include: "workflow/rules/own_models.smk"
include: "workflow/rules/parity.smk"
include: "workflow/rules/largest.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/targets.smk"


rule all:
    default_target: True
    input:
        products.all_records(),
        products.all(),
