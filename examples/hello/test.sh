#!/bin/sh
# The one test: the world is greeted by its name.
[ "$(sh greet.sh)" = "Hello, world!" ] || { echo "greet.sh says: $(sh greet.sh)"; exit 1; }
echo "ok"
