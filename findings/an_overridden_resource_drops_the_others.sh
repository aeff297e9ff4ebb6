#!/usr/bin/env bash
# Finding:  `use rule train as train_large with: resources: mem_mb=128000` leaves nothing of the resources of train:
#           gpu, runtime and the partition are gone, and the job gets the defaults. `params: rate=0.2` in the same place
#           changes the rate alone.
# Packages: snakemake==9.27.1
# Topic:    Snakemake and SLURM
# Source:   RuleInfo.apply_modifier in snakemake/ruleinfo.py merges keyword arguments of params, and replaces all other
#           attributes whole.
# Guess:    both add to and override what the rule has (confidence 70 %).
# Hurts:    jobs on clusters: a training that was to have more memory runs on the default partition without a GPU.
# Here:     the one rule that is derived, in workflow/rules/parity.smk, overrides no resources
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > Snakefile <<'S'
rule train:
    output: "train.txt"
    params: rate=0.1, epochs=90
    resources: gpu=4, runtime=600, slurm_partition="a100", mem_mb=64000
    run:
        with open(output[0], "w") as file:
            asked = [f"{name}={resources.get(name)}" for name in ("mem_mb", "gpu", "runtime", "slurm_partition")]
            print(*[f"{name}={value}" for name, value in params.items()], *asked, file=file)

use rule train as train_large with:
    output: "train_large.txt"
    params: rate=0.2
    resources: mem_mb=128000
S
"$python" -m snakemake --cores 1 --quiet all -- train.txt train_large.txt
echo "snakemake $("$python" -m snakemake --version)"
tail train.txt train_large.txt
[ "$(cat train.txt)" = "rate=0.1 epochs=90 mem_mb=64000 gpu=4 runtime=600 slurm_partition=a100" ]
[ "$(cat train_large.txt)" = "rate=0.2 epochs=90 mem_mb=128000 gpu=None runtime=None slurm_partition=None" ]
