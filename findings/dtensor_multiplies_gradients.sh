#!/usr/bin/env bash
# Finding:  On DTensors that are sharded along the batch, mse_loss, smooth_l1_loss, huber_loss, soft_margin_loss and
#           binary_cross_entropy have the right value and gradients that are too large by the number of processes: 2 on
#           two, 4 on four. l1_loss, cross_entropy, binary_cross_entropy_with_logits, and the mean written out, are
#           right. A batch that does not divide evenly has another loss, too, where cross_entropy raises an error. The
#           gradient of amax() of the whole tensor is infinite and NaN, that of max() right.
# Packages: torch==2.13.0 numpy==2.4.6
# Topic:    what frameworks do differently
# Source:   own measurement. Their backward operations divide by the number of elements of the local shard.
# Guess:    the gradients of one process, for each of them (confidence 95 %).
# Hurts:    regression and autoencoders trained by sharded inputs: the learning rate grows with the devices under SGD and
#           clipping, nothing is seen under Adam, and the printed loss of the first step is right.
# Here:     losses of variants of equal work are compared at every step that is reported, not at the first alone
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > losses.py <<'P'
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
torch.manual_seed(0)
outputs, targets = torch.randn(8, 4), torch.rand(8, 4)
LOSSES = {
    "mse": F.mse_loss,
    "smooth_l1": F.smooth_l1_loss,
    "huber": F.huber_loss,
    "soft_margin": lambda x, y: F.soft_margin_loss(x, (y - 0.5).sign()),
    "bce": lambda x, y: F.binary_cross_entropy(x.sigmoid(), y),
    "bce_with_logits": F.binary_cross_entropy_with_logits,
    "l1": F.l1_loss,
    "cross_entropy": lambda x, y: F.cross_entropy(x, y.softmax(1)),
    "written_out": lambda x, y: (x - y).pow(2).mean(),
}


def shard(tensor):
    return distribute_tensor(tensor.clone(), mesh, [Shard(0)])


for name, loss in LOSSES.items():
    whole, parts = outputs.clone().requires_grad_(), shard(outputs).requires_grad_()
    one, many = loss(whole, targets), loss(parts, shard(targets))
    one.backward()
    many.backward()
    torch.testing.assert_close(many.full_tensor(), one)
    ratio = (parts.grad.full_tensor() / whole.grad).median().item()
    if dist.get_rank() == 0:
        print(f"{name}:{ratio:.3f}", end=" ")
uneven = [loss(shard(outputs[:7]), shard(targets[:7])).full_tensor() for loss in (F.mse_loss, LOSSES["written_out"])]
if dist.get_rank() == 0:
    is_right = [torch.allclose(value, F.mse_loss(outputs[:7], targets[:7])) for value in uneven]
    print(f"uneven:mse={is_right[0]},written_out={is_right[1]}", end=" ")
for name in ("amax", "max"):
    parts = shard(outputs).requires_grad_()
    getattr(parts, name)().backward()
    is_finite = parts.grad.full_tensor().isfinite().all().item()
    if dist.get_rank() == 0:
        print(f"{name}:{'finite' if is_finite else 'not_finite'}", end=" ")
dist.destroy_process_group()
P
for processes in 2 4; do
    OMP_NUM_THREADS=1 "$python" -m torch.distributed.run --standalone --nproc-per-node=$processes losses.py \
        2>/dev/null > "$processes.txt"
    wrong="mse:$processes.000 smooth_l1:$processes.000 huber:$processes.000 soft_margin:$processes.000 bce:$processes.000"
    right="bce_with_logits:1.000 l1:1.000 cross_entropy:1.000 written_out:1.000"
    [ "$(cat $processes.txt)" = "$wrong $right uneven:mse=False,written_out=True amax:not_finite max:finite " ] || { cat $processes.txt; exit 1; }
done
echo "gradients over those of one process: on 2: $(cat 2.txt); on 4: $(cat 4.txt)"
