#!/usr/bin/env bash
# Finding:  all_reduce(x, MAX) of torch.distributed.nn.functional, which is there for its gradients, has the wrong ones:
#           it reduces the gradients by MAX, too, and gives the result to all processes. Of 1 and 2 on two processes,
#           with a loss of three times the maximum on each, x has a gradient of 3 on both, where 0 and 6 are right.
#           PRODUCT multiplies the gradients, and AVG is right, as is SUM.
# Packages: torch==2.13.0 numpy==2.4.6
# Topic:    what frameworks do differently
# Source:   torch/distributed/nn/functional.py: _AllReduce.backward() applies _AllReduce with the operation of the
#           forward pass.
# Guess:    the gradient goes to the process with the maximum, as that of torch.max(), or an error says that there is
#           none (confidence 85 %; seen beside a try on SUM, and not written down before).
# Hurts:    contrastive losses, pooling and softmax over classes that are divided among processes: losses are right and
#           training goes elsewhere.
# Here:     no backend computes a gradient through an exchange
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > gradient.py <<'P'
import sys
import warnings

import torch
import torch.distributed as dist
from torch.distributed.nn.functional import all_reduce

warnings.filterwarnings("ignore")
rank, port = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
EXACT = {"SUM": torch.sum, "AVG": torch.mean, "MAX": torch.max, "PRODUCT": torch.prod}
seen = {}
for name, exact in EXACT.items():
    x = torch.tensor(1.0 + rank, requires_grad=True)
    value = all_reduce(x, op=getattr(dist.ReduceOp, name))
    (3 * value).backward()
    both = torch.tensor([1.0, 2.0], requires_grad=True)
    whole = exact(both)
    (2 * 3 * whole).backward()
    each = [None, None]
    dist.all_gather_object(each, x.grad.item())
    seen[name] = value.item() == whole.item(), each, both.grad.tolist()
if rank == 0:
    print(f"torch {torch.__version__}, of 1 and 2: value right, gradients on both processes, and those of both losses: "
          + "; ".join(f"{name} {right}, {each}, {exact}" for name, (right, each, exact) in seen.items()))
dist.barrier()
dist.destroy_process_group()
wrong = {"MAX": [3.0, 3.0], "PRODUCT": [9.0, 9.0]}
sys.exit(not all(right and each == wrong.get(name, exact) and (name in wrong) == (each != exact)
                 for name, (right, each, exact) in seen.items()))
P
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$python" gradient.py 1 "$port" > other.log 2>&1 &
"$python" gradient.py 0 "$port" 2> own.log
wait $!
