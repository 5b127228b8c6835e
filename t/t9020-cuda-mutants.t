#!/bin/bash
# Every fault of t/lib/mutants, one after the other.
all_mutants=1
. "$(dirname "$0")/t8020-cuda-mutants.t"
