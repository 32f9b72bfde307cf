#!/usr/bin/env bash
# Runs in the caller's directory before the sandbox exists.
set -euo pipefail
: "${FULLSEND_DIR:?}" "${FULLSEND_PRESCRIPT_OUTPUT:?}" "${ISSUE_NUMBER:?}"
test -f "${FULLSEND_DIR}/harness/retro.yaml"
echo "::group::Preparing retro"
echo "::notice::the retro agent works on ${FULLSEND_FORGE} issue ${ISSUE_NUMBER}"
echo "::endgroup::"
echo "prepared=retro" >> "${FULLSEND_PRESCRIPT_OUTPUT}"
