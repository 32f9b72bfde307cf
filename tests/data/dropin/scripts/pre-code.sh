#!/usr/bin/env bash
# Runs in the caller's directory before the sandbox exists.
set -euo pipefail
: "${FULLSEND_DIR:?}" "${FULLSEND_PRESCRIPT_OUTPUT:?}" "${ISSUE_NUMBER:?}"
test -f "${FULLSEND_DIR}/harness/code.yaml"
echo "::group::Preparing code"
echo "::notice::the code agent works on ${FULLSEND_FORGE} issue ${ISSUE_NUMBER}"
echo "::endgroup::"
echo "prepared=code" >> "${FULLSEND_PRESCRIPT_OUTPUT}"
