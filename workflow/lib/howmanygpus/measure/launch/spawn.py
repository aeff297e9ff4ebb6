"""Start processes on this machine, one per device, as srun does on a cluster. If one fails, the others are killed."""

import argparse
import functools
import os
import subprocess
import sys
import time

import psutil

from howmanygpus.measure.host.processes import die_with_parent, stop_process_tree

POLL_S, GRACE_S = 0.1, 2.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num-processes", type=int, required=True)
    parser.add_argument("--folder", required=True, help="where the processes announce themselves")
    parser.add_argument("module", help="module that each of them runs, with its options")
    parser.add_argument("options", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    die_with_parent()
    command = [
        sys.executable,
        "-m",
        "howmanygpus.measure.launch.rank_process",
        "--folder",
        arguments.folder,
        arguments.module,
    ]
    end_with_this = functools.partial(die_with_parent, parent=os.getpid())
    children = []
    for rank in map(str, range(arguments.num_processes)):
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": str(arguments.num_processes)}
        environment = os.environ | {f"HOWMANYGPUS_{name}": value for name, value in place.items()}
        children.append(subprocess.Popen([*command, *arguments.options], env=environment, preexec_fn=end_with_this))
    # Each child is asked, so that the end of a later one is seen while the first one runs.
    while None in (polled := [child.poll() for child in children]) and not any(polled):
        time.sleep(POLL_S)
    failed = [rank for rank, status in enumerate(polled) if status]
    for child in children:
        if child.poll() is None:
            # Its children are stopped too, because a shell that ends leaves them running.
            stop_process_tree(psutil.Process(child.pid), GRACE_S)
    for child in children:
        child.wait()
    if not failed:
        return
    status = children[failed[0]].returncode
    status = status if status > 0 else 128 - status  # as shells count signals
    if len(failed) == 1:  # which of several was the first, their tracebacks tell
        print(f"Process name: {failed[0]}\nExit code: {status}", file=sys.stderr, flush=True)
    sys.exit(status)


if __name__ == "__main__":
    main()
