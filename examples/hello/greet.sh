#!/bin/sh
# Greets the world, or whoever is named.
echo "Hello, ${1:-wrold}!"
