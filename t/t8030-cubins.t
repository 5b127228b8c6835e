#!/bin/bash
# The kernels, which the build has compiled for every architecture, take the registers and memory that
# doc/gpu/registers.txt says: a kernel that begins to spill shows here.
. "$(dirname "$0")/lib/tap.sh"
nvcc=$(sed -n 's/^NVCC = //p' "$top_builddir/Makefile")
[ -n "$nvcc" ] || skip_all "no CUDA toolkit: nvcc was not found by configure"
release=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
known=$(sed -n 's/.*(nvcc \([0-9.]*\)).*/\1/p' "$top_srcdir/doc/gpu/registers.txt")
[ "$release" = "$known" ] || skip_all "no CUDA toolkit: nvcc $known, whose registers the table holds (this is $release)"
unset MAKEFLAGS MFLAGS MAKELEVEL
run make -C "$top_builddir" cubins
is "make cubins" "$rc" 0
[ "$rc" -eq 0 ] || diag "$out" "$err"
# a register more shows
table=$tmp/registers.txt
sed -E '0,/^sm_/s/^(sm_.*[^ ]) +[0-9]+( +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+)$/\1  255\2/' \
    "$top_srcdir/doc/gpu/registers.txt" >"$table"
run "$top_srcdir/t/lib/cubins" "$table" "$top_builddir"/kernels/{,model/}cuda/*.log
is "another number of registers is found" "$rc" 1
like "... and named" "$out" "^- sm_.* 255 "
done_testing
