#!/bin/sh
# Runs on the host, only on accepted output.
set -eu
cat "$FULLSEND_VALIDATED_ITERATION_DIR/agent-result.json"
