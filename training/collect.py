"""Turns downloaded packages into two files: `carriers.jsonl` (benign text, by source) and `attacks.jsonl` (public attacks).

    python3 collect.py PACKAGES SHARED OUT

PACKAGES holds what `fetch.sh` downloaded; SHARED is the data directory of the project's tests. Reads archives in memory, runs
nothing of them, and writes rows in a fixed order, so that the same input gives the same output.
"""
import collections
import gzip
import hashlib
import io
import json
import pathlib
import re
import sys
import tarfile
import zipfile

# What an agent meets in a repository, by the end of its name.
KINDS = {
    "readme": re.compile(r"(^|/)readme[^/]*\.(md|rst|txt)$", re.I),
    "changelog": re.compile(r"(^|/)(changelog|changes|history|news|releases?)[^/]*\.(md|rst|txt)$", re.I),
    "security": re.compile(r"(^|/)(security|contributing|code_of_conduct|governance|support)[^/]*\.(md|rst|txt)$", re.I),
    "docs": re.compile(r"(^|/)docs?/.*\.(md|rst|txt)$", re.I),
    "ci": re.compile(r"(^|/)\.(github|gitlab-ci|circleci|travis).*\.ya?ml$", re.I),
    "config": re.compile(r"(^|/)(package\.json|cargo\.toml|pyproject\.toml|setup\.cfg|tox\.ini|makefile|dockerfile|\.eslintrc[^/]*)$", re.I),
    "code": re.compile(r"\.(py|js|ts|mjs|rs|sh)$", re.I),
}
LIMIT_BY_KIND = {"readme": 6, "changelog": 3, "security": 4, "docs": 12, "ci": 3, "config": 2, "code": 6}
CHUNK = 1200  # characters, about one window of the model


def members(path):
    """Names and texts of an archive."""
    data = path.read_bytes()
    if path.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for info in archive.infolist():
                if info.file_size < 400_000 and not info.is_dir():
                    yield info.filename, lambda info=info: archive.read(info)
    else:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for info in archive:
                if info.isfile() and info.size < 400_000:
                    yield info.name, lambda info=info: archive.extractfile(info).read()


def chunks(text, most):
    """Pieces of about one window, cut at blank lines where there are any."""
    pieces, piece = [], ""
    for paragraph in re.split(r"(?<=\n)\s*\n", text):
        if len(piece) + len(paragraph) > CHUNK and piece:
            pieces.append(piece)
            piece = ""
        piece += paragraph + "\n"
        while len(piece) > 2 * CHUNK:
            pieces.append(piece[:CHUNK])
            piece = piece[CHUNK:]
    pieces.append(piece)
    pieces = [p for p in pieces if 80 < len(p.strip())]
    step = max(1, len(pieces) // most)
    return pieces[::step][:most]


def package_rows(directory, source):
    for path in sorted(directory.iterdir()):
        counts = collections.Counter()
        try:
            for name, read in members(path):
                kind = next((kind for kind, pattern in KINDS.items() if pattern.search(name)), None)
                if kind is None or counts[kind] >= LIMIT_BY_KIND[kind]:
                    continue
                text = read().decode("utf-8", "replace")
                if text.count("\ufffd") > 3 or (kind == "code" and max(map(len, text.splitlines() or [""])) > 400):
                    continue
                counts[kind] += 1
                for piece in chunks(text, 4 if kind == "code" else 8):
                    yield {"source": source, "kind": kind, "group": path.name, "text": piece}
        except (tarfile.TarError, zipfile.BadZipFile, OSError) as error:
            print(f"left out {path.name}: {error}", file=sys.stderr)


def crate_rows(directory):
    for path in sorted(directory.iterdir()):
        counts = collections.Counter()
        for file in sorted(path.rglob("*")):
            name = str(file.relative_to(path))
            kind = next((kind for kind, pattern in KINDS.items() if pattern.search(name)), None)
            if kind is None or counts[kind] >= LIMIT_BY_KIND[kind] or not file.is_file() or file.stat().st_size > 400_000:
                continue
            text = file.read_text("utf-8", "replace")
            counts[kind] += 1
            for piece in chunks(text, 4 if kind == "code" else 8):
                yield {"source": "crates", "kind": kind, "group": path.name, "text": piece}


def jsonl(path):
    with gzip.open(path, "rt") as file:
        yield from (json.loads(line) for line in file)


USED = {"llmail-inject", "satml-ctf-2024", "lakera/gandalf", "jackhhao/jailbreak", "jailbreakchat"}


def attack_rows(packages, shared):
    for path in sorted(packages.glob("pip/prompt_armor-*.whl")):
        with zipfile.ZipFile(path) as archive:
            for name in ("known_attacks.jsonl", "known_attacks_v2.jsonl"):
                for line in archive.read(f"prompt_armor/data/attacks/{name}").decode().splitlines():
                    row = json.loads(line)
                    if row["source"] in USED:
                        yield {"source": row["source"], "text": row["text"]}
    for path in sorted(packages.glob("pip/pyrit-*.whl")):
        with zipfile.ZipFile(path) as archive:
            for name in sorted(archive.namelist()):
                if "/jailbreak/templates/" in name and name.endswith(".yaml") and "in_the_wild" not in name:
                    text = archive.read(name).decode("utf-8", "replace")
                    if "value: |" in text:
                        body = text.split("value: |", 1)[1]
                        lines = [line[2:] if line.startswith("  ") else line for line in body.splitlines()[1:]]
                        yield {"source": "pyrit", "text": "\n".join(lines)}
    for row in jsonl(shared / "injection/bipia-train-attacks.jsonl.gz"):
        yield {"source": "bipia", "kind": row["category"], "text": row["text"]}


def unique(rows):
    seen = set()
    for row in rows:
        text = re.sub(r"\W+", " ", row["text"].lower()).strip()
        digest = hashlib.sha256(text.encode("utf-8", "replace")).digest()[:12]
        if len(text) > 8 and digest not in seen:
            seen.add(digest)
            yield row


def write(path, rows):
    counts = collections.Counter()
    with open(path, "w", encoding="utf-8", errors="replace") as file:
        for row in rows:
            counts[row["source"], row.get("kind", "")] += 1
            file.write(json.dumps(row) + "\n")
    print(path.name, sum(counts.values()), dict(counts.most_common(40)))


def main():
    packages, shared, out = (pathlib.Path(word) for word in sys.argv[1:4])

    def carriers():
        yield from package_rows(packages / "npm", "npm")
        yield from package_rows(packages / "sd", "pypi")
        yield from crate_rows(packages / "crates")
        for row in jsonl(shared / "benign-docs/agent-instructions.jsonl.gz"):
            for piece in chunks(row["text"], 3):
                yield {"source": "instructions", "kind": "instructions", "group": row["origin"], "text": piece}
        for number, row in enumerate(jsonl(shared / "injection/bipia-train-contexts.jsonl.gz")):
            yield {"source": "bipia", "kind": row["kind"], "group": f"{row['kind']}{number % 50}", "text": row["text"][: 2 * CHUNK]}

    write(out / "carriers.jsonl", unique(carriers()))
    write(out / "attacks.jsonl", unique(attack_rows(packages, shared)))


main()
