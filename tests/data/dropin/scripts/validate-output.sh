#!/usr/bin/env bash
# Checks the output of an iteration. The working directory is the iteration's.
set -euo pipefail
file="output/${FULLSEND_OUTPUT_FILE:-agent-result.json}"
: "${FULLSEND_OUTPUT_SCHEMA:?}"
jq -e '.summary | length > 0' "$file" > /dev/null || { echo "summary is empty"; exit 1; }
jq -e --slurpfile schema "$FULLSEND_OUTPUT_SCHEMA" '. as $out | $schema[0].required | all(. as $key | $out | has($key))' "$file" > /dev/null
echo "the output is valid"
