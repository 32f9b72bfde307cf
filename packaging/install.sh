#!/bin/sh
# Installs fullsend from a release: the archive, its checksum and, with a public key, the signature of the checksums.
#
#   sh install.sh --from DIR|URL [--prefix DIR] [--public-key FILE]
#   sh install.sh --uninstall [--prefix DIR]
#
#   --from        the directory or the address that holds the release's files
#   --prefix      where bin/fullsend and share/fullsend go (default: $HOME/.local)
#   --public-key  the key that signed the release; without it only checksums are compared
set -eu
from='' prefix="${HOME:-}/.local" key='' uninstall=''
while [ $# -gt 0 ]; do
  case $1 in
    --from) from=$2; shift 2 ;;
    --prefix) prefix=$2; shift 2 ;;
    --public-key) key=$2; shift 2 ;;
    --uninstall) uninstall=yes; shift ;;
    *) echo "install.sh: unknown option $1" >&2; exit 2 ;;
  esac
done
fail() { echo "install.sh: $1" >&2; exit 1; }

if [ -n "$uninstall" ]; then
  rm -f "$prefix/bin/fullsend" "$prefix/share/fullsend/injection.weights"
  rmdir "$prefix/share/fullsend" 2>/dev/null || true
  echo "removed $prefix/bin/fullsend"
  echo "runs, sessions and installed agent programs stay: remove \${XDG_STATE_HOME:-~/.local/state}/fullsend and \${XDG_CACHE_HOME:-~/.cache}/fullsend"
  exit 0
fi
[ -n "$from" ] || fail "name the release's directory or address with --from"
[ "$(uname -s)" = Linux ] || fail "fullsend runs on Linux; this is $(uname -s)"
case $(uname -m) in
  x86_64 | aarch64) arch=$(uname -m) ;;
  *) fail "there is no binary for $(uname -m)" ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fetch() {
  case $from in
    https://*)
      if command -v curl >/dev/null; then
        curl --proto '=https' --tlsv1.2 -fsSL -o "$work/$1" "$from/$1"
      else
        wget -q --https-only -O "$work/$1" "$from/$1"
      fi ;;
    http://*) fail "$from is not encrypted; use https" ;;
    *) cp "$from/$1" "$work/$1" ;;
  esac || fail "cannot get $1 from $from"
}

fetch SHA256SUMS
if [ -n "$key" ]; then
  fetch SHA256SUMS.sig
  openssl pkeyutl -verify -rawin -pubin -inkey "$key" -in "$work/SHA256SUMS" -sigfile "$work/SHA256SUMS.sig" >/dev/null 2>&1 ||
    fail "the signature of SHA256SUMS does not fit $key; nothing was installed"
fi
archive=$(sed -n "s/^[0-9a-f]*  \(fullsend-.*-$arch-linux\.tar\.gz\)$/\1/p" "$work/SHA256SUMS")
[ -n "$archive" ] || fail "the release has no archive for $arch"
fetch "$archive"
(cd "$work" && grep "  $archive\$" SHA256SUMS | sha256sum -c - >/dev/null 2>&1) ||
  fail "the checksum of $archive does not fit; nothing was installed"
tar -C "$work" -xzf "$work/$archive"
"$work/${archive%.tar.gz}/fullsend" --version >/dev/null || fail "the binary does not start on this machine"
mkdir -p "$prefix/bin" "$prefix/share/fullsend"
# By renames: a running fullsend keeps its own files.
cp "$work/${archive%.tar.gz}/injection.weights" "$prefix/share/fullsend/.injection.weights.new"
mv "$prefix/share/fullsend/.injection.weights.new" "$prefix/share/fullsend/injection.weights"
cp "$work/${archive%.tar.gz}/fullsend" "$prefix/bin/.fullsend.new"
mv "$prefix/bin/.fullsend.new" "$prefix/bin/fullsend"
echo "installed $("$prefix/bin/fullsend" --version) in $prefix/bin"
case ":$PATH:" in
  *":$prefix/bin:"*) ;;
  *) echo "add $prefix/bin to PATH" ;;
esac
echo "try: fullsend self-test"
