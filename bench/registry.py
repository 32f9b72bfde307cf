#!/usr/bin/env python3
"""A large image from a registry on this machine: pull, unpack and start, beside `skopeo copy` and `tar`.

    python3 bench/registry.py --fullsend target/release/fullsend [--megabytes 1024]

Prints `name ours peer ratio`: seconds, then the highest memory in MiB. Needs `docker-registry`, `skopeo`, `tar` and
a static `busybox`, which runs inside. Half of each layer is random and half is text, so that
there is something to decompress. Both sides read from the same registry and write to the same disk. They take turns, twice; the better time
of each counts.
"""
import argparse
import gzip
import hashlib
import io
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time

LAYERS = 4
FILE_BYTES = 1 << 20


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--fullsend", required=True)
    arguments.add_argument("--megabytes", type=int, default=1024)
    options = arguments.parse_args()
    for tool in ["docker-registry", "skopeo", "tar", "busybox"]:
        if not shutil.which(tool):
            sys.exit(f"registry: {tool} is not installed")
    program = str(pathlib.Path(options.fullsend).resolve())
    with tempfile.TemporaryDirectory(prefix="fullsend-registry-") as directory:
        directory = pathlib.Path(directory)
        image = write_image(directory / "image", options.megabytes)
        port = free_port()
        server = start_registry(directory, port)
        try:
            name = f"127.0.0.1:{port}/bench/large:1"
            push = ["skopeo", "copy", "-q", "--dest-tls-verify=false", f"oci:{image}:1", f"docker://{name}"]
            subprocess.run(push, check=True)
            shutil.rmtree(image)
            measure(directory, program, name, options.megabytes)
        finally:
            server.terminate()
            server.wait()


def measure(directory, program, name, megabytes):
    ours, peer = [], []
    for number in range(2):
        ours.append(run_ours(directory / f"ours-{number}", program, name))
        peer.append(run_peer(directory / f"peer-{number}", name))
    print("name ours peer ratio")
    for index, what in enumerate(["pull-seconds", "pull-unpack-start-seconds", "pull-unpack-start-memory-mib"]):
        best = [min(one[index] for one in side) for side in (ours, peer)]
        print(f"{what}-{megabytes}-mb {best[0]:.2f} {best[1]:.2f} {best[0] / best[1]:.2f}")


def run_ours(directory, program, name):
    """Pull alone, then unpack and start; each sees only its own cache."""
    directory.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory)}
    work = directory / "work"
    work.mkdir()
    pulled = timed([program, "image", "pull", name], environment, work)
    start = [program, "sandbox", "run", "--image", name, "--", "/bin/busybox", "true"]
    started = timed(start, environment, work)
    shutil.rmtree(directory)
    return pulled[0], pulled[0] + started[0], max(pulled[1], started[1])


def run_peer(directory, name):
    directory.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory)}
    image = directory / "image"
    copy = ["skopeo", "copy", "-q", "--src-tls-verify=false", f"docker://{name}", f"oci:{image}"]
    pulled = timed(copy, environment, directory)
    root = directory / "root"
    root.mkdir()
    seconds, memory = pulled
    index = json.loads((image / "index.json").read_text())
    blobs = image / "blobs" / "sha256"
    manifest = json.loads((blobs / index["manifests"][0]["digest"].split(":")[1]).read_text())
    for layer in manifest["layers"]:
        blob = blobs / layer["digest"].split(":")[1]
        more, used = timed(["tar", "-xzf", str(blob), "-C", str(root)], environment, directory)
        seconds, memory = seconds + more, max(memory, used)
    shutil.rmtree(directory)
    return pulled[0], seconds, memory


def timed(command, environment, directory):
    """Seconds, and the highest memory of the process in MiB, asked for every 20 ms."""
    begin = time.perf_counter()
    with open(directory / "errors", "w+") as errors:
        process = subprocess.Popen(command, env=environment, cwd=directory, stdout=subprocess.DEVNULL, stderr=errors)
        highest = 0
        while process.poll() is None:
            highest = max(highest, memory_of(process.pid))
            time.sleep(0.02)
        seconds = time.perf_counter() - begin
        errors.seek(0)
        if process.returncode != 0:
            sys.exit(f"registry: {' '.join(command)}: {errors.read()[-2000:]}")
    return seconds, highest


def memory_of(pid):
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), 0)


def write_image(image, megabytes):
    blobs = image / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    layers, plain = [], []
    for number in range(LAYERS):
        compressed, plain_digest = layer(blobs, number, megabytes // LAYERS)
        layers.append(describe("application/vnd.oci.image.layer.v1.tar+gzip", blobs, compressed))
        plain.append(plain_digest)
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    config = {"architecture": architecture, "os": "linux", "rootfs": {"type": "layers", "diff_ids": plain}}
    config = describe("application/vnd.oci.image.config.v1+json", blobs, store(blobs, config))
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": layers}
    manifest = describe("application/vnd.oci.image.manifest.v1+json", blobs, store(blobs, manifest))
    manifest["annotations"] = {"org.opencontainers.image.ref.name": "1"}
    (image / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
    (image / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return image


def layer(blobs, number, megabytes):
    """One compressed layer; returns its digest and the digest of its plain bytes."""
    path = blobs / f"layer-{number}"
    plain = hashlib.sha256()

    class Both(io.RawIOBase):
        def writable(self):
            return True

        def write(self, data):
            plain.update(data)
            return compressed.write(data)

    with gzip.GzipFile(path, "wb", compresslevel=1, mtime=0) as compressed, tarfile.open(fileobj=Both(), mode="w|") as tar:
        if number == 0:
            add(tar, "bin/busybox", pathlib.Path(shutil.which("busybox")).read_bytes(), 0o755)
        line = b"The quick brown fox jumps over the lazy dog, again and again.\n"
        for index in range(megabytes):
            half = FILE_BYTES // 2
            add(tar, f"data/{number}/{index}", os.urandom(half) + (line * (half // len(line) + 1))[:half], 0o644)
    digest = hashlib.file_digest(open(path, "rb"), "sha256").hexdigest()
    path.rename(blobs / digest)
    return digest, f"sha256:{plain.hexdigest()}"


def add(tar, name, data, mode):
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    entry.mode = mode
    tar.addfile(entry, io.BytesIO(data))


def store(blobs, document):
    data = json.dumps(document).encode()
    digest = hashlib.sha256(data).hexdigest()
    (blobs / digest).write_bytes(data)
    return digest


def describe(kind, blobs, digest):
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": (blobs / digest).stat().st_size}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start_registry(directory, port):
    settings = directory / "registry.yml"
    storage = {"filesystem": {"rootdirectory": str(directory / "storage")}}
    settings.write_text(json.dumps({"version": 0.1, "log": {"level": "error"}, "storage": storage, "http": {"addr": f"127.0.0.1:{port}"}}))
    server = subprocess.Popen(["docker-registry", "serve", settings], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return server
        except OSError:
            time.sleep(0.1)
    server.terminate()
    sys.exit("registry: docker-registry does not answer")


if __name__ == "__main__":
    main()
