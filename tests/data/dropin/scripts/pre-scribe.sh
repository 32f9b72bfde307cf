#!/usr/bin/env bash
# Runs in the caller's directory before the sandbox exists.
set -euo pipefail
: "${FULLSEND_DIR:?}" "${FULLSEND_PRESCRIPT_OUTPUT:?}" "${ISSUE_NUMBER:?}"
test -f "${FULLSEND_DIR}/harness/scribe.yaml"
printf '{"notes": []}' > "${RUNNER_TEMP:?}/notes.json"
echo "::group::Preparing scribe"
echo "::notice::the scribe agent works on ${FULLSEND_FORGE} issue ${ISSUE_NUMBER}"
echo "::endgroup::"
echo "prepared=scribe" >> "${FULLSEND_PRESCRIPT_OUTPUT}"
