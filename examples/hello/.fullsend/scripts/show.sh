#!/bin/sh
# Runs on the host, only on accepted output: applies the agent's patch to a copy, and tests that.
set -eu
cat "$FULLSEND_VALIDATED_ITERATION_DIR/agent-result.json"
[ -n "$FULLSEND_CHANGES" ] || exit 0
cp -R "$TARGET_REPO_DIR" applied
cd applied
git apply "$FULLSEND_CHANGES"
sh test.sh || echo "and the test still fails"
