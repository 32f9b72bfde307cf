#!/bin/sh
# Checks out the branch that the agent works on.
set -eu
: "${BRANCH_NAME:?}"
