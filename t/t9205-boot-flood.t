#!/bin/bash
# The floods of t2005, five times as many.
times=5
. "$(dirname "$0")/t2005-boot-flood.t"
