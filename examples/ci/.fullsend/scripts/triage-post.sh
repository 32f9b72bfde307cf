#!/bin/sh
# Applies the checked result: labels and a comment. Runs only on accepted output.
set -eu
test -s "$FULLSEND_VALIDATED_ITERATION_DIR/agent-result.json"
