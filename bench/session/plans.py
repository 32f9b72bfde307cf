"""The plans that PostgreSQL really chooses for the program's statements at 100,000 sessions: the server's own `auto_explain` logs them.

    python3 bench/session/plans.py --fullsend target/release/fullsend --store postgres://USER@HOST/DATABASE \\
        --psql "psql -h HOST -U USER DATABASE" --log FILE

The user must be a superuser, the database new, and FILE the server's log. Copies one session to 100,000: 100 have an input,
10,000 a queued wake, 50 a dead letter; with 200,000 events. Then runs commands and prints, for each statement of theirs that
reads sessions or events: the milliseconds of the server and how each table was read. Exit 1 if one reads more than a tenth of the
sessions.
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import string
import subprocess
import sys
import tempfile
import time

from fleet import FILES

SESSIONS = 100_000
# Every tenth session has a queued wake, every thousandth an input, every two thousandth a dead letter.
COPY = """
INSERT INTO fullsend.sessions (id, agent, header, state, repository, normal_ms, input_ms)
SELECT copy, 'agent-' || n % 50,
       replace(replace(header, first.id::text, copy::text), '"agent":"helper"', '"agent":"agent-' || n % 50 || '"'),
       CASE WHEN n % 2000 = 7 THEN replace(state, '"requests":[]', '"dead":[{}],"requests":[]')
            WHEN n % 10 = 0 THEN replace(state, '"wakes":[]', '"wakes":[{"id":"' || gen_random_uuid()
                 || '","due_ms":4000000000000,"reason":"later","priority":"normal"}]')
            ELSE state END,
       'example.com/acme/repository-' || n % 200,
       CASE WHEN n % 10 = 0 THEN 4000000000000 + n END,
       CASE WHEN n % 1000 = 1 THEN 1 + n END
FROM (SELECT * FROM fullsend.sessions LIMIT 1) AS first, generate_series(1, $sessions) AS n, LATERAL (SELECT
  overlay(overlay(md5(n::text) placing '7' from 13) placing '8' from 17)::uuid AS copy) AS made;
INSERT INTO fullsend.events (session_id, seq, id, time_ms, version, type, is_conversation, payload, checksum)
SELECT id, n, gen_random_uuid(), 1, 3, 'user.message', true, '{}', '' FROM fullsend.sessions, generate_series(1, 2) AS n
WHERE agent <> 'helper';
ALTER DATABASE $database SET session_preload_libraries = 'auto_explain';
ALTER DATABASE $database SET auto_explain.log_min_duration = 0;
ALTER DATABASE $database SET auto_explain.log_analyze = on;
ALTER DATABASE $database SET auto_explain.log_format = 'json';
"""


def main():
    parser = argparse.ArgumentParser()
    for name in ["fullsend", "store", "psql", "log"]:
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(options, pathlib.Path(place))
        bench.fill()
        bench.report()
    if bench.too_much:
        sys.exit(f"plans: read more than a tenth of the sessions: {', '.join(sorted(bench.too_much))}")


class Bench:
    def __init__(self, options, place):
        self.program = os.path.abspath(options.fullsend)
        self.psql = shlex.split(options.psql)
        self.log = pathlib.Path(options.log)
        self.repository = place / "repo"
        for name, text in FILES.items():
            path = self.repository / ".fullsend" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(place), "FULLSEND_SESSION_STORE": options.store}
        self.too_much = set()

    def run(self, *words):
        done = subprocess.run([self.program, *words], cwd=self.repository, env=self.environment, text=True, capture_output=True)
        if done.returncode not in (0, 4):
            sys.exit(f"plans: {' '.join(words)}: {done.stderr}")
        return done.stdout

    def sql(self, text):
        return subprocess.run([*self.psql, "-qAtv", "ON_ERROR_STOP=1"], input=text, text=True, check=True, capture_output=True).stdout

    def fill(self):
        self.own = json.loads(self.run("session", "create", "--agent", "helper"))["id"]
        database = self.sql("SELECT current_database()").strip()
        self.sql(string.Template(COPY).substitute(sessions=SESSIONS, database=database))
        self.sql("VACUUM ANALYZE")

    def report(self):
        other = self.sql("SELECT id FROM fullsend.sessions WHERE agent <> 'helper' LIMIT 1").strip()
        commands = [
            ("worker --drain", ["worker", "--drain"]),
            ("worker --drain --agent", ["worker", "--drain", "--agent", "agent-1"]),
            ("session send", ["session", "send", self.own, "a message"]),
            ("session show", ["session", "show", self.own]),
            ("session events", ["session", "events", self.own]),
            ("session list", ["session", "list", "--limit", "1000"]),
            ("session list --agent", ["session", "list", "--agent", "agent-7"]),
            ("session list --status", ["session", "list", "--status", "requires_action"]),
            ("session list --repository", ["session", "list", "--repository", "example.com/acme/repository-7"]),
            ("a short id", ["session", "show", other[-8:]]),
            ("a short id that does not exist", ["session", "show", "ffffff"]),
        ]
        print("command milliseconds how")
        for name, words in commands:
            start = self.log.stat().st_size
            self.run(*words)
            time.sleep(0.3)
            with self.log.open() as log:
                log.seek(start)
                for duration, reads in plans(log.read()):
                    print(f"{name} | {duration} | {'; '.join(read for read, _ in reads)}")
                    if any(rows > SESSIONS // 10 for _, rows in reads):
                        self.too_much.add(name)


def plans(text):
    """The duration and the reads of sessions and events of every plan in a log."""
    for found in re.finditer(r"duration: ([\d.]+) ms  plan:\n((?:\t.*\n)+)", text):
        plan = json.loads(found.group(2))["Plan"]
        reads = list(dict.fromkeys(nodes(plan)))
        if reads:
            yield found.group(1), reads


def nodes(plan):
    if plan.get("Relation Name") in ("sessions", "events") and plan.get("Actual Loops", 1) > 0 and plan["Node Type"] != "ModifyTable":
        index = f" using {plan['Index Name']}" if "Index Name" in plan else ""
        rows = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
        yield f"{plan['Node Type']}{index} on {plan['Relation Name']}, {rows} rows read", rows
    for below in plan.get("Plans", []):
        yield from nodes(below)


if __name__ == "__main__":
    main()
