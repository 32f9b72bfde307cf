#!/bin/sh
# Gathers what the sandbox cannot reach: the issue itself.
set -eu
: "${ISSUE_NUMBER:?}" "${REPO_FULL_NAME:?}"
