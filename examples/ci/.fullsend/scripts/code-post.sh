#!/bin/sh
# Pushes the checked change and opens a pull request. Runs only on accepted output.
set -eu
: "${BRANCH_NAME:?}"
