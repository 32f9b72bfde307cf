#!/usr/bin/env python3
"""The verbs of a lasting sandbox, measured: create, exec, put, get, rm, beside a bare process and bubblewrap where it is installed; and
what many sandboxes cost that do nothing.

    FULLSEND_PROGRAM=target/release/fullsend python3 bench/lasting.py [ROUNDS] [ALIVE]

Prints `name ours peer ratio`, medians in milliseconds. `exec` goes through one connection of the protocol, as a program uses it.
"""
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "packaging" / "python"))

from fullsend import Sandboxes  # noqa: E402


def median(action, rounds):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        action()
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


def show(name, ours, peer=None):
    ratio = f"{ours / peer:.2f}" if peer else "-"
    print(f"{name:24} {ours:10.2f} {'-' if peer is None else f'{peer:.2f}':>10} {ratio:>6}")


def status(pid, field):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    return 0


def ticks(pid):
    words = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(words[11]) + int(words[12])


def main(rounds, alive):
    bare = median(lambda: subprocess.run(["/bin/true"], check=True), rounds)
    bwrap = None
    if shutil.which("bwrap"):
        command = ["bwrap", "--ro-bind", "/", "/", "--unshare-all", "--dev", "/dev", "--proc", "/proc", "/bin/true"]
        bwrap = median(lambda: subprocess.run(command, check=True), rounds)
    data = os.urandom(1 << 20)
    with Sandboxes() as sandboxes:
        made = []
        show("create", median(lambda: made.append(sandboxes.create()), min(rounds, 20)), bwrap)
        one = made[0]
        show("exec /bin/true", median(lambda: one.exec(["/bin/true"]), rounds), bare)
        show("put 1 MiB", median(lambda: one.put("file", data), rounds))
        show("get 1 MiB", median(lambda: one.get("file"), rounds))
        show("rm", median(lambda: made.pop().remove(), len(made) - 1))
        while len(made) < alive:
            made.append(sandboxes.create())
        owners = [entry["owner_pid"] for entry in sandboxes.list()]
        time.sleep(1)
        before = sum(ticks(pid) for pid in owners)
        start = time.perf_counter()
        time.sleep(5)
        spent = (sum(ticks(pid) for pid in owners) - before) / os.sysconf("SC_CLK_TCK")
        idle = 100 * spent / (time.perf_counter() - start)
        own = statistics.mean(status(pid, "RssAnon") for pid in owners)
        print(f"{len(owners)} alive: {own:.0f} kB of its own memory for each owner, {idle:.1f} % of one processor for all")


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    main(*(numbers + [50, 20][len(numbers) :]))
