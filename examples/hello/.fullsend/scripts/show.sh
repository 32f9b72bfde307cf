#!/bin/sh
# Runs on the host, only on accepted output: takes the checkout with the agent's changes, or without git applies its patch
# to a copy, and tests that.
set -eu
cat "$FULLSEND_VALIDATED_ITERATION_DIR/agent-result.json"
[ -n "$FULLSEND_CHANGES" ] || exit 0
if [ -n "$REPO_DIR" ]; then
  cd "$REPO_DIR"
else
  cp -R "$TARGET_REPO_DIR" applied
  cd applied
  git apply "$FULLSEND_CHANGES"
fi
sh test.sh || echo "and the test still fails"
