"""What wakes cost with many workers on one PostgreSQL server: whole processes of the real program, a scripted model, real
sandboxes.

    python3 bench/session/fleet.py --fullsend target/release/fullsend --store postgres://USER@HOST/DATABASE --psql "psql -h HOST -U USER DATABASE"

Prints wakes in a second and processor seconds for one wake with 1, 2, 4 and 8 workers (`--wakes` each), and then, with fifty
idle workers: connections, transactions of the server in a minute without work and for one wake, and the time from a message to
the start of its wake. The store should be new: it is written to.
"""
import argparse
import json
import os
import pathlib
import resource
import shlex
import statistics
import subprocess
import tempfile
import time

FILES = {
    "harness/helper.yaml": "agent: agents/helper.md\nruntime: native\nproviders: [model]\n",
    "agents/helper.md": "---\nname: helper\ndescription: Helps.\n---\nHelp.\n",
    "providers/model.yaml": "name: model\ntype: anthropic\nconfig:\n  scenario: scenarios/s.json\n",
    "scenarios/s.json": '{"turns":[[{"finish":{"response":"ok","summary":"did it","outcome":"sleep"}}]]}',
}
# The server counts the transactions of an idle connection up to ten seconds late.
WINDOW = 60


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fullsend", required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--psql", required=True)
    parser.add_argument("--wakes", type=int, default=24)
    parser.add_argument("--idle", type=int, default=50)
    parser.add_argument("--only", choices=["fleet", "idle"])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(arguments, pathlib.Path(place))
        if arguments.only != "idle":
            for workers in (1, 2, 4, 8):
                bench.fleet(workers)
        if arguments.only != "fleet":
            bench.idle(arguments.idle)


class Bench:
    def __init__(self, arguments, place):
        self.program = os.path.abspath(arguments.fullsend)
        self.psql = shlex.split(arguments.psql)
        self.wakes = arguments.wakes
        self.repository = place / "repo"
        for name, text in FILES.items():
            path = self.repository / ".fullsend" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(place),
            "XDG_STATE_HOME": str(place / "state"),
            "FULLSEND_SESSION_STORE": arguments.store,
        }
        self.run("store", "migrate")

    def start(self, *words):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
        return subprocess.Popen([self.program, *words], cwd=self.repository, env=self.environment, **quiet)

    def run(self, *words):
        ran = subprocess.run([self.program, *words], cwd=self.repository, env=self.environment, capture_output=True)
        assert ran.returncode == 0, ran.stderr.decode()
        return ran.stdout.decode()

    def ask(self, sql):
        return subprocess.run([*self.psql, "-Atc", sql], capture_output=True, check=True).stdout.decode().strip()

    def told(self):
        session = json.loads(self.run("session", "create", "--agent", "helper"))["id"]
        self.run("session", "send", session, "go")
        return session

    def fleet(self, workers):
        for _ in range(self.wakes):
            self.told()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.monotonic()
        fleet = [self.start("worker", "--drain", "--quiet") for _ in range(workers)]
        assert all(worker.wait() == 0 for worker in fleet)
        wall = time.monotonic() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"workers {workers}: {self.wakes / wall:.2f} wakes a second, {used / self.wakes:.3f} processor seconds a wake", flush=True)

    def idle(self, workers):
        fleet = [self.start("worker", "--quiet") for _ in range(workers)]
        try:
            self.measure(workers)
        finally:
            for worker in fleet:
                worker.terminate()
            for worker in fleet:
                worker.wait()

    def connections(self):
        return int(self.ask("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"))

    def transactions(self):
        return int(self.ask("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"))

    def window(self, work):
        before, start = self.transactions(), time.monotonic()
        work()
        time.sleep(max(0, WINDOW - (time.monotonic() - start)))
        return self.transactions() - before

    def measure(self, workers):
        deadline = time.monotonic() + 120
        while self.connections() < workers and time.monotonic() < deadline:
            time.sleep(0.5)
        # Every worker has looked for work and waits.
        time.sleep(20)
        print(f"idle workers {workers}: {self.connections()} connections")
        idle = self.window(lambda: None)
        print(f"idle workers {workers}: {idle} transactions a minute without work", flush=True)
        sessions = []

        def work():
            for _ in range(5):
                sessions.append(self.told())
                time.sleep(4)

        all_of_them = self.window(work)
        print(f"idle workers {workers}: {(all_of_them - idle) / 5:.0f} transactions a wake, with `session create` and `session send`")
        delays = []
        for session in sessions:
            events = [json.loads(line) for line in self.run("session", "events", session).splitlines()]
            sent = next(event["time_ms"] for event in events if event["type"] == "user.message")
            delays.append(next(event["time_ms"] for event in events if event["type"] == "span.started") - sent)
        print(f"idle workers {workers}: {statistics.median(delays):.0f} ms from a message to its wake, at most {max(delays)}")


if __name__ == "__main__":
    main()
