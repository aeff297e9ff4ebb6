"""
Train the GPT of examples/program on two devices that one process imitates, and print its losses as JSON.

Honest variants add up the sequences of a batch in another order. Each fault is one that sharded training has had.
"""

import json
import sys

import gpt_torch
import torch
from sentences import encode, write_text

LAYERS, WIDTH, HEADS, LENGTH, SEQUENCES = 2, 32, 2, 32, 8


def train(num_devices: int, num_steps: int, order: int = 0, fault: str = "") -> list[float]:
    """Return the losses of the first device. order: seed of the order of summation; 0 for that of the draws."""
    torch.manual_seed(1)
    model = gpt_torch.GPT(LAYERS, WIDTH, HEADS, LENGTH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.002)
    draws = [torch.Generator().manual_seed(0 if fault == "batch" else rank) for rank in range(num_devices)]
    orders, text = torch.Generator().manual_seed(order), torch.tensor(encode(write_text(1000, seed=1)))
    losses = []
    for _ in range(num_steps):
        gradients, own = [], []
        for generator in draws:
            drawn = gpt_torch.draw_sequences(text, SEQUENCES, LENGTH, generator)
            drawn = drawn[torch.randperm(SEQUENCES, generator=orders)] if order else drawn
            model.zero_grad()
            loss = gpt_torch.compute_loss(model, drawn)
            loss.backward()
            own.append(loss.item())
            gradients.append([parameter.grad.clone() for parameter in model.parameters()])
        for parameter, *each in zip(model.parameters(), *gradients, strict=True):
            parameter.grad = each[0] if fault == "average" else torch.stack(each).mean(0)
        optimizer.step()
        for state in optimizer.state.values() if fault == "moments" else ():
            for name in ("exp_avg", "exp_avg_sq"):
                state[name].copy_(state[name].bfloat16())
        losses.append(own[0])
    return losses


def main() -> None:
    torch.set_num_threads(1)
    num_orders, num_steps = int(sys.argv[1]), int(sys.argv[2])
    print(
        json.dumps(
            {
                str(num_devices): {str(order): train(num_devices, num_steps, order) for order in range(num_orders + 1)}
                | {fault: train(num_devices, num_steps, fault=fault) for fault in ("moments", "average", "batch")}
                for num_devices in (1, 2)
            }
        )
    )


if __name__ == "__main__":
    main()
