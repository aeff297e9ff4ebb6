#!/usr/bin/env bash
# Finding:  Times in PyTorch's Chrome traces are microseconds since a moment of the last months, which the field
#           baseTimeNanoseconds at the end of the file states; only their sum is the clock of the system.
# Packages: torch==2.13.0 numpy==2.4.6
# Topic:    traces
# Source:   kineto subtracts the base so that a double keeps nanoseconds (ChromeTraceBaseTime).
# Guess:    microseconds of the Unix clock, as they were for years (expected with 60 %).
# Hurts:    whoever lays traces of ranks or a power log over them: off by weeks.
# Here:     report/traces/ counts from the start of the traced steps
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" - <<'P' 2>/dev/null
import json
import sys
import time

import torch

before = time.time_ns()
with torch.profiler.profile() as profiler:
    torch.ones(10).sum()
after = time.time_ns()
profiler.export_chrome_trace("trace.json")
trace = json.load(open("trace.json"))
start_ns = next(event["ts"] * 1000 for event in trace["traceEvents"] if event.get("name") == "aten::sum")
base_ns = trace["baseTimeNanoseconds"]
right = before - 1000 <= start_ns + base_ns <= after + 1000
print(f"ts of an event is {start_ns / 86400e9:.1f} days; with baseTimeNanoseconds it is the clock's time: {right}")
sys.exit(not (right and base_ns > 0 and start_ns < before / 2))
P
