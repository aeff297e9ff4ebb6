"""A program that is slowed on purpose: by its input, by its exchange, or by one slow process."""

STEP_S, MORE_S = 0.1, 0.05
SHARE = MORE_S / (STEP_S + MORE_S)
"""Part of the rate that the cause takes on several devices."""
SOURCE = """
import os, socket, sys, time
from report_progress import control, report

slow, (host, port) = sys.argv[1], sys.argv[2].split(":")
rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
keeps_batch = control("resident_input")
peers = []
if count > 1 and not control("no_exchange"):
    server = socket.create_server(("", int(port))) if rank == 0 else None
    for _ in range(count - 1 if rank == 0 else 600):
        try:
            peers.append(server.accept()[0] if rank == 0 else socket.create_connection((host, int(port))))
        except OSError:
            time.sleep(0.1)
        if rank:
            if peers:
                break


def wait_for_all():
    for peer in peers:
        peer.sendall(b"x")
    for peer in peers:
        peer.recv(1)


def sleep_until(moment):
    time.sleep(max(0.0, moment - time.monotonic()))


more_input = MORE_S * (slow == "input" and count > 1 and not keeps_batch)
own = STEP_S + more_input + MORE_S * (slow == "rank" and rank == 1)
whole = STEP_S + MORE_S if peers and slow != "input" else own
report(step=0, parameters=1000)
wait_for_all()
start = time.monotonic()
for step in range(1, 51):
    # By a timetable that all processes share: a step that took too long, because a process got no core, is made up for.
    begin = start + (step - 1) * whole
    sleep_until(begin + own)
    if peers:
        wait_for_all()
        sleep_until(begin + whole)
    if step % 4 == 0:
        report(step=step)
"""
PROGRAM = SOURCE.replace("MORE_S", str(MORE_S)).replace("STEP_S", str(STEP_S))
"""Takes what slows it ("input", "exchange" or "rank") and the place where its processes meet."""
