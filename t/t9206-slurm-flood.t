#!/bin/bash
# The floods of t2006, five times as many.
times=5
. "$(dirname "$0")/t2006-slurm-flood.t"
