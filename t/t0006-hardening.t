#!/bin/bash
# What is built to be installed, as the linker left it: guarded stacks, checked copies, tables that are read-only before
# the first line of a program runs, no place that is writable and executable, no folder of the build in it.
source "$(dirname "$0")/lib/tap.sh"
cd "$top_builddir" || exit

# What the user's own flags rule out: the checks need an optimiser, and would hide calls from sanitizers.
has_checks() {
    ! grep -q 'define DDP_SANITIZED 1' config.h && ! grep -qE '^(C|CPP)FLAGS = .*(-fsanitize=|_FORTIFY_SOURCE)' \
        Makefile &&
        grep -qE '^CFLAGS = (.* )?-O([123sgz]|fast)?( |$)' Makefile && ! grep -qE '^CFLAGS = .*-O0' Makefile
}

# says WHAT FILE OPTION ERE, lacks ...: of readelf's words on it
says() { like "$2: $1" "$(LC_ALL=C readelf -W "$3" "$2" 2>&1)" "$4"; }
lacks() { unlike "$2: $1" "$(LC_ALL=C readelf -W "$3" "$2" 2>&1)" "$4"; }

hardened() { # FILE
    says "stacks are guarded" "$1" --dyn-syms ' UND +__stack_chk_fail'
    ! has_checks || says "copies are checked" "$1" --dyn-syms ' UND +__(mem|str|v?sn?printf)[a-z]*_chk'
    says "its tables become read-only" "$1" -l 'GNU_RELRO'
    says "... all of them, at once" "$1" -d 'BIND_NOW'
    says "its stack is not executable" "$1" -l 'GNU_STACK[^E]* RW  *0x'
    lacks "nothing is writable and executable" "$1" -l ' RWE '
    lacks "its code is not written to" "$1" -d 'TEXTREL'
    says "it lies at any address" "$1" -h 'Type: +DYN '
}

for file in .libs/ddp.so .libs/libddp.so; do
    [ -e $file ] || continue # a build without Slurm
    hardened $file
    lacks "nobody chooses where its libraries come from" $file -d 'R(UN)?PATH'
done
! grep -qE '^am__append_[0-9]+ = ddp[.]la$' Makefile ||
    ok "the plugin is among them where Slurm is" test -e .libs/ddp.so
for file in ddp train ddp-waits; do
    [ -e $file ] || [ $file != ddp-waits ] || continue # a build without libdw
    hardened $file
    says "it is a program all the same" $file -d 'Flags:.* PIE'
done
done_testing
