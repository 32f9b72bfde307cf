#!/usr/bin/env bash
# Runs in the run's directory after the sandbox is gone.
set -euo pipefail
. "${FULLSEND_DIR}/scripts/lib/publish.sh"
publish "fix"
