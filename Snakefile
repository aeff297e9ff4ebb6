"""
Which framework, how many GPUs, which batch size, at what cost?

The workflow is in workflow/Snakefile. This file lets `snakemake` find it in a clone, also for results made before.
"""


include: "workflow/Snakefile"


# Snakemake forgets the default target of an included file.
workflow.default_target = workflow.modifier.modify_rulename("all")
