#!/usr/bin/env python3
"""Writes the npm package, the Python wheel, the SBOM (CycloneDX) and the provenance statement around one binary and the
weights of its learned scanner.

Needs nothing but Python. Two runs over the same binary write the same bytes.
"""
import argparse
import base64
import gzip
import hashlib
import io
import json
import os
import pathlib
import subprocess
import tarfile
import time
import uuid
import zipfile

SUMMARY = "Run one coding agent, from one YAML file, in one sandbox, and record what happened"
EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
NPM_CPU = {"x86_64": "x64", "aarch64": "arm64"}
ROOT = pathlib.Path(__file__).resolve().parent.parent
WEIGHTS = ROOT / "models" / "injection.weights"


def npm(options, binary):
    manifest = {
        "name": "fullsend",
        "version": options.version,
        "description": SUMMARY,
        "license": "Apache-2.0",
        "os": ["linux"],
        "cpu": [NPM_CPU[options.arch]],
        "bin": {"fullsend": "bin/fullsend"},
        "files": ["bin/fullsend", "bin/injection.weights", "LICENSE", "README.md"],
    }
    files = {
        "package/package.json": (json.dumps(manifest, indent=2).encode() + b"\n", 0o644),
        "package/LICENSE": ((ROOT / "LICENSE").read_bytes(), 0o644),
        "package/README.md": ((ROOT / "README.md").read_bytes(), 0o644),
        "package/bin/fullsend": (binary, 0o755),
        "package/bin/injection.weights": (WEIGHTS.read_bytes(), 0o644),
    }
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, (contents, mode) in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(contents), mode, EPOCH
            archive.addfile(entry, io.BytesIO(contents))
    target = options.out / f"fullsend-{options.version}.tgz"
    target.write_bytes(gzip.compress(plain.getvalue(), options.level, mtime=EPOCH))


def wheel(options, binary):
    tag = f"py3-none-manylinux_2_17_{options.arch}.musllinux_1_1_{options.arch}"
    about = f"fullsend-{options.version}.dist-info"
    tags = "".join(f"Tag: py3-none-{part}\n" for part in tag.split("-")[2].split("."))
    files = [
        (f"fullsend-{options.version}.data/scripts/fullsend", binary, 0o755),
        (f"fullsend-{options.version}.data/data/share/fullsend/{WEIGHTS.name}", WEIGHTS.read_bytes(), 0o644),
        (
            f"{about}/METADATA",
            f"Metadata-Version: 2.1\nName: fullsend\nVersion: {options.version}\nSummary: {SUMMARY}\nLicense: Apache-2.0\n".encode(),
            0o644,
        ),
        (f"{about}/WHEEL", f"Wheel-Version: 1.0\nGenerator: fullsend\nRoot-Is-Purelib: false\n{tags}".encode(), 0o644),
        (f"{about}/LICENSE", (ROOT / "LICENSE").read_bytes(), 0o644),
        (f"{about}/entry_points.txt", b"[inspect_ai]\nfullsend = fullsend.inspect_provider\n", 0o644),
    ]
    package = ROOT / "packaging" / "python" / "fullsend"
    for path in sorted(package.iterdir()):
        if path.suffix == ".py" or path.name == "py.typed":
            files.append((f"fullsend/{path.name}", path.read_bytes(), 0o644))
    record = ""
    for name, contents, _ in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(contents).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(contents)}\n"
    files.append((f"{about}/RECORD", f"{record}{about}/RECORD,,\n".encode(), 0o644))
    # Zip files know no time before 1980.
    moment = time.gmtime(max(EPOCH, 315532800))[:6]
    path = options.out / f"fullsend-{options.version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=options.level) as archive:
        for name, contents, mode in files:
            entry = zipfile.ZipInfo(name, moment)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, contents)


def built_in(metadata):
    """The crates that are part of the binary: not those of tests, benches and build scripts."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    packages = {package["id"]: package for package in metadata["packages"]}
    first = next(package["id"] for package in metadata["packages"] if package["name"] == "fullsend")
    waiting, seen = [first], {first}
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            kinds = [kind["kind"] for kind in dependency["dep_kinds"]]
            if None in kinds and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                waiting.append(dependency["pkg"])
    return sorted((packages[one] for one in seen if one != first), key=lambda package: (package["name"], package["version"]))


def sbom(options, digest):
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--offline"]
    command += ["--filter-platform", f"{options.arch}-unknown-linux-gnu"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if ran.returncode != 0:
        raise SystemExit(f"packages.py: cargo metadata failed: {ran.stderr.strip()}")
    components = []
    for package in built_in(json.loads(ran.stdout)):
        part = {"type": "library", "name": package["name"], "version": package["version"]}
        part["purl"] = f"pkg:cargo/{package['name']}@{package['version']}"
        part["bom-ref"] = part["purl"]
        if package["license"]:
            part["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        components.append(part)
    whole = {
        "type": "application",
        "name": "fullsend",
        "version": options.version,
        "bom-ref": f"pkg:cargo/fullsend@{options.version}",
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}",
        "version": 1,
        "metadata": {"component": whole},
        "components": components,
    }
    (options.out / "fullsend.cdx.json").write_text(json.dumps(document, indent=2) + "\n")


def provenance(options):
    """An in-toto statement (SLSA provenance v1) over every package. The signature is that of the checksums."""
    subjects = []
    for path in sorted(options.out.iterdir()):
        subjects.append({"name": path.name, "digest": {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}})
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "https://fullsend.invalid/packaging/build/v1",
                "externalParameters": {"profile": "dist", "arch": options.arch},
                "resolvedDependencies": [{"uri": "git", "digest": {"gitCommit": options.commit}}],
            },
            "runDetails": {"builder": {"id": "https://fullsend.invalid/packaging/build"}},
        },
    }
    (options.out / "provenance.json").write_text(json.dumps(statement, indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser()
    for name in ("binary", "version", "commit", "arch", "out"):
        parser.add_argument(f"--{name}", required=True, type=pathlib.Path if name in ("binary", "out") else str)
    parser.add_argument("--level", type=int, default=9)
    options = parser.parse_args()
    binary = options.binary.read_bytes()
    npm(options, binary)
    wheel(options, binary)
    sbom(options, hashlib.sha256(binary).hexdigest())
    provenance(options)


main()
