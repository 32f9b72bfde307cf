"""Collects shell commands from the README files of registry packages, for `fullsend scan bench`.

    python3 bench/commands/collect.py OUTPUT.jsonl [COUNT]

It starts with the packages of training/npm-packages.txt, follows their dependencies, and reads the README files of the crates
that Cargo has downloaded. The lines stay on this machine: they are other people's text, and only figures are published.
"""

import collections
import concurrent.futures
import io
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
SHELLS = {"sh", "bash", "shell", "console", "terminal", "zsh", "shell-session", "shellsession"}
LONGEST = 16 << 20


def fetch(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read(LONGEST)


def npm(registry, name):
    """The README and the dependencies of the latest version."""
    about = json.loads(fetch(registry + urllib.parse.quote(name, safe="@")))
    latest = about["versions"][about["dist-tags"]["latest"]]
    readme = about.get("readme") or ""
    if len(readme) < 200:
        with tarfile.open(fileobj=io.BytesIO(fetch(latest["dist"]["tarball"]))) as package:
            for entry in package:
                if re.fullmatch(r"[^/]+/readme(\.\w+)?", entry.name, re.I) and entry.isfile():
                    readme = package.extractfile(entry).read().decode("utf-8", "replace")
    needed = {**latest.get("dependencies", {}), **latest.get("devDependencies", {})}
    return readme, sorted(needed)


def commands(readme):
    """Lines of shell fences, and lines that show a prompt in any fence."""
    found = []
    for fence in re.finditer(r"^[ >]*```+ *([\w-]*)[^\n]*\n(.*?)^[ >]*```", readme, re.M | re.S):
        language = fence.group(1).lower()
        lines = re.sub(r"\\\n", " ", fence.group(2)).split("\n")
        has_prompt = any(re.match(r"\s*\$ ", line) for line in lines)
        for line in lines:
            line = line.strip()
            if line.startswith("$ "):
                line = line[2:].strip()
            elif has_prompt or language not in SHELLS:
                continue
            if line and not line.startswith("#"):
                found.append(line)
    return found


def main():
    output = pathlib.Path(sys.argv[1])
    wanted = int(sys.argv[2]) if len(sys.argv) > 2 else 2500
    registry = subprocess.run(["npm", "config", "get", "registry"], capture_output=True, text=True, check=True)
    registry = registry.stdout.strip().rstrip("/") + "/"
    seen = {}
    for readme in sorted(pathlib.Path.home().glob(".cargo/registry/src/*/*/README*")):
        name = "crate " + re.sub(r"-\d[^-]*$", "", readme.parent.name)
        for line in commands(readme.read_text(encoding="utf-8", errors="replace")):
            seen.setdefault(line, name)
    start = (HERE / "../../training/npm-packages.txt").read_text().split()
    waiting = collections.deque(re.sub(r"(?<=.)@[^/]*$", "", name) for name in start)
    known = set(waiting)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        while waiting and len(seen) < wanted:
            batch = [waiting.popleft() for _ in range(min(32, len(waiting)))]
            for name, work in [(name, pool.submit(npm, registry, name)) for name in batch]:
                try:
                    readme, needed = work.result()
                except Exception as error:
                    print(f"left out {name}: {error}", file=sys.stderr)
                    continue
                for line in commands(readme):
                    seen.setdefault(line, "npm " + name)
                waiting.extend(other for other in needed if other not in known)
                known.update(needed)
            print(len(known), "packages known,", len(seen), "commands", file=sys.stderr)
    with output.open("w") as file:
        for line, source in seen.items():
            row = {"text": line, "label": "benign", "category": "commands", "source": source, "origin": "tool"}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


main()
