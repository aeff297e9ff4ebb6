"""
Define the targets besides `all`: the target `available`, and one target per study with the study's name.
"""


rule available:
    input:
        products.all(),


for study in PLAN.studies:

    if study in [known.name for known in workflow.rules]:
        raise WorkflowError(f"studies.{study}: {study!r} is the name of a rule; choose another name")

    rule:
        name:
            study
        input:
            products.planned_records(study),
            products.of_study(study),
