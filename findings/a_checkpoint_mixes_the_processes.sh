#!/usr/bin/env bash
# Finding:  If a tensor or number of the same name differs between processes, torch.distributed.checkpoint.save() keeps
#           one process's value for each name, and for the next name another's: of a BatchNorm under DDP with its
#           defaults it saves the running mean of process 1 and the variance of process 0, and of six weights that
#           differ, three of each. No process had the network that load() returns. With
#           DefaultSavePlanner(dedup_save_to_lowest_rank=True) all are of process 0.
# Packages: torch==2.13.0 numpy==2.4.6
# Topic:    programs
# Source:   torch/distributed/checkpoint/_dedup_save_plans.py: of a name that several processes have, the process that
#           has the fewest bytes to write so far keeps it, so that all write alike; values are not compared.
# Guess:    all are of process 0 (confidence 85 %).
# Hurts:    statistics of BatchNorm under DDP and FSDP2, which differ between processes, weights between two averages of
#           local SGD, states of random generators, and counters: an evaluation of the loaded network is of none that
#           was trained.
# Here:     torch.distributed.checkpoint is not used; the gate compares the running statistics of every device
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > mix.py <<'P'
import sys
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

warnings.filterwarnings("ignore")
rank, port = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)


def sources(values, name, **settings):
    """Return, for each name, the processes whose value load() returns."""
    dcp.save(dict(values), checkpoint_id=name, **settings)
    loaded = {key: torch.full_like(value, -1) for key, value in values.items()}
    dcp.load(loaded, checkpoint_id=name)
    each = [None, None]
    dist.all_gather_object(each, values)
    return {key: "".join(str(of) for of in (0, 1) if torch.equal(value, each[of][key]))
            for key, value in loaded.items()}


torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.BatchNorm1d(64))
parallel = torch.nn.parallel.DistributedDataParallel(network)
torch.manual_seed(rank)
for _ in range(5):
    parallel(torch.randn(16, 4)).sum().backward()
weights = {f"w{i}": torch.full((3,), float(rank)) for i in range(6)}
statistics, ours = sources(network.state_dict(), "network"), sources(weights, "weights")
lowest = sources(weights, "lowest", planner=dcp.DefaultSavePlanner(dedup_save_to_lowest_rank=True))
if rank == 0:
    print(f"torch {torch.__version__}: process whose value is loaded: mean {statistics['1.running_mean']}, variance "
          f"{statistics['1.running_var']}; six weights {' '.join(ours.values())}, with dedup_save_to_lowest_rank "
          f"{' '.join(lowest.values())}; the weights that are equal are right: {statistics['0.weight'] == '01'}")
dist.barrier()
dist.destroy_process_group()
sys.exit(not (statistics["0.weight"] == "01" and {statistics[f"1.running_{of}"] for of in ("mean", "var")} == {"0", "1"}
              and sorted(ours.values()) == ["0"] * 3 + ["1"] * 3 and set(lowest.values()) == {"0"}))
P
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$python" mix.py 1 "$port" > other.log 2>&1 &
"$python" mix.py 0 "$port" 2> own.log
wait $!
