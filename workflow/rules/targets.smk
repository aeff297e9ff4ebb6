"""
Define the targets besides `all`: the targets `available` and `proposal`, and one target per study with its name. A
study with a list of models is a target of its own name, too, which stands for one study per model.
"""


rule available:
    input:
        products.available(),


rule proposal:
    input:
        expand("results/proposal/{study}", study=PLAN.studies),


if PLAN.machine.submits:

    rule batch_scripts:
        """Write a batch script for each run without an outcome; see write_run_script."""
        input:
            products.run_scripts(),


for study in PLAN.targets:

    if study in [known.name for known in workflow.rules]:
        raise WorkflowError(f"studies.{study}: {study!r} is the name of a rule; choose another name")

    rule:
        name:
            study
        input:
            products.list_target_products(study),
