#!/usr/bin/env bash
# Finding:  The Chrome trace that jax.profiler writes has at most a million events and says nothing of the rest; the
#           xplane file beside it has all of them (2.25 million here).
# Packages: jax==0.10.2
# Topic:    traces
# Source:   the converter from XSpace to trace events in XLA's profiler keeps 1,000,000.
# Guess:    the same events in both files.
# Hurts:    whoever sums times or counts calls from trace.json.gz of more than some seconds: the end is missing.
# Here:     report/traces/xspace.py reads the xplane file
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > trace.py <<'P'
import glob
import gzip
import json
import sys

import jax
import jax.numpy as jnp

CALLS = 150_000
step = jax.jit(lambda x: jnp.sin(x) + 1)
x = step(jnp.ones(4))
with jax.profiler.trace("traced"):
    for _ in range(CALLS):
        x = step(x)
    x.block_until_ready()
(chrome,) = glob.glob("traced/**/*.trace.json.gz", recursive=True)
(xplane,) = glob.glob("traced/**/*.xplane.pb", recursive=True)
events = sum(event.get("ph") == "X" for event in json.load(gzip.open(chrome))["traceEvents"])
data = jax.profiler.ProfileData.from_file(xplane)
all_events = sum(1 for plane in data.planes for line in plane.lines for _ in line.events)
print(f"events of {CALLS:,} calls: {events:,} in the Chrome trace, {all_events:,} in the xplane file")
sys.exit(not (events == 1_000_000 < all_events))
P
"$python" trace.py 2>/dev/null
