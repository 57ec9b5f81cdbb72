#!/bin/sh
# Compiles a peer in C for this machine and runs it: compiled.sh FILE.c [LIBRARIES]
set -e
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cc -O3 -march=native -fopenmp -fno-tree-loop-distribute-patterns -o "$folder/peer" "$@"
"$folder/peer"
