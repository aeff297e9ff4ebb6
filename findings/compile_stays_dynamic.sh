#!/usr/bin/env bash
# Finding:  After one batch of another size, a function of torch.compile runs all later batches of the first size too in
#           the graph with symbolic shapes; the graph made for their size is kept and never used again.
# Packages: torch==2.13.0 numpy==2.4.6
# Topic:    what frameworks do differently
# Source:   torch._dynamo compiles for a changed size with dynamic shapes, and looks through its entries beginning with
#           the latest, whose guards the first size fulfils as well.
# Guess:    full batches run the graph that was made for exactly their size.
# Hurts:    whoever measures steps after an epoch whose last batch is incomplete, or after an evaluation of another size.
# Here:     the network is compiled with dynamic=False; docs/program.md names it
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" - <<'P'
import sys

import torch

ran = []
graphs = 0


def name_graphs(module, example_inputs):
    global graphs
    graphs += 1
    number = graphs

    def run(*values):
        ran.append(number)
        return module.forward(*values)

    return run


def list_graphs(**options):
    global graphs
    torch._dynamo.reset()
    ran.clear()
    graphs = 0
    network = torch.compile(torch.nn.Linear(4, 4), backend=name_graphs, **options)
    for size in (32, 32, 20, 32, 32):
        network(torch.randn(size, 4))
    return list(ran)


usual, static = list_graphs(), list_graphs(dynamic=False)
print(f"torch {torch.__version__}: graphs that ran batches of 32, 32, 20, 32, 32: {usual}; with dynamic=False: {static}")
sys.exit((usual, static) != ([1, 1, 2, 2, 2], [1, 1, 2, 1, 1]))
P
