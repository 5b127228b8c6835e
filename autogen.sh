#!/bin/sh
# Makes ./configure from configure.ac. Needs autoconf, automake, libtool and pkg-config.
set -e
cd "$(dirname "$0")"
exec autoreconf --install --force
