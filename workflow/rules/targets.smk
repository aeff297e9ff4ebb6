rule all:
    default_target: True
    input:
        [f"results/runs/{path}/run.json" for path in PLAN.runs],
