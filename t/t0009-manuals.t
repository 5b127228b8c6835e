#!/bin/bash
# The manual pages: free of mistakes, and about the options, settings and functions that there are; each kind of
# difference is caught.
source "$(dirname "$0")/lib/tap.sh"
command -v mandoc >/dev/null || skip_all "no mandoc: contrib/deps installs it"
unset MAKEFLAGS MFLAGS MAKELEVEL

run make -C "$top_builddir" install-man install-dist_examplesDATA install-data-hook DESTDIR="$tmp/root"
is "the pages are installed" "$rc" 0
man=$(dirname "$(find "$tmp/root" -name man3)")
# mandoc looks for the pages that a page refers to in the system's folders alone: strangers does that here.
lint() { mandoc -Tlint -Wall "$@" 2>/dev/null | grep -v "STYLE: referenced manual not found:"; }
slurm=' salloc.1 sbatch.1 scontrol.1 srun.1 slurm.conf.5 slurmd.8 spank.8 '
strangers() {
    grep -ohE '\bXr [^ ]+ [1-8]' "$@" | sort -u | while read -r _ name section; do
        [ -s "$man/man$section/$name.$section" ] || [[ $slurm == *" $name.$section "* ]] || echo "$name.$section"
    done
}
is "mandoc finds no mistake in them" "$(lint "$top_srcdir"/doc/man/*)" ""
is "they refer to pages that there are" "$(strangers "$top_srcdir"/doc/man/*)" ""
printf '%s\n' '.Dd November 1, 2026' '.Dt X 1' .Os '.Sh NAME' '.Nm x' '.Nd y' '.Sh DESCRIPTION' '.Xr ddp_stop 3' \
    '.Bl -tag -width Ds' '.It x' >"$tmp/x.1"
like "caught: a list without an end" "$(lint "$tmp/x.1")" "appending missing end of block: Bl"
is "caught: a reference to a page that is not there" "$(strangers "$tmp/x.1")" ddp_stop.3

check() { run "$top_srcdir/t/lib/manuals" "$1" "$top_builddir"; }
check "$top_srcdir"
is "they say what the code does" "$rc:$out$err" "0:"

copy() {
    rm -rf "$tmp/tree" && mkdir -p "$tmp/tree/doc" "$tmp/tree/runtime"
    cp -r "$top_srcdir/doc/man" "$top_srcdir/doc/user.md" "$tmp/tree/doc/"
    cp -r "$top_srcdir/spank" "$tmp/tree/"
    cp -r "$top_srcdir/runtime/base" "$tmp/tree/runtime/"
    cp "$top_srcdir/runtime/ddp.h" "$tmp/tree/runtime/"
    chmod -R u+w "$tmp/tree"
}
# planted FILE SED REPORT: the tree with one file edited is reported with a line that matches REPORT.
planted() {
    copy
    sed -i "$2" "$tmp/tree/$1"
    if cmp -s "$tmp/tree/$1" "$top_srcdir/$1"; then diag "$2 changes nothing in $1"; fi
    check "$tmp/tree"
    like "caught in $1: $2" "$rc:$out" "(^1:|"$'\n'")$3"
}
header=runtime/ddp.h man=doc/man
planted $header 's/^void ddp_finalize(ddp_t \*d);/&\nint ddp_new(ddp_t *d);/' "section 3: function ddp_new is missing"
planted $header 's/^int ddp_barrier(ddp_t \*d/int ddp_barrier(const ddp_t *d/' \
    "section 3: function ddp_barrier is 'int ddp_barrier\(ddp_t"
planted $header '/int stop_signal;/d' "section 3: type ddp_step is "
planted $header 's/^enum ddp_op {/enum ddp_new { DDP_NEW };\n&/' "section 3: type ddp_new is missing"
planted $header 's/^#define DDP_RULES/#define DDP_NEW 1\n&/' "section 3: DDP_NEW is missing"
planted $man/ddp_init.3 's/^\.Fn ddp_world "const/.Fn ddp_worlds "const/' "section 3: function ddp_worlds is unknown"
planted $man/ddp_step.3 '/^\.Nm ddp_grad_unused ,/d' "ddp_step.3: ddp_grad_unused is not in NAME"
planted $man/ddp_step.3 's/^\.Nm ddp_step ,/&\n.Nm ddp_wait ,/' "section 3: NAME has ddp_wait"
planted $man/ddp-run.1 's/^\.It Fl -boot /.It Fl -boots /' "ddp-run.1: option --boot ADDRESS is missing"
planted $man/ddp-topo.1 's/^\.It Fl -ranks /.It Fl -new\nNew.\n&/' "ddp-topo.1: option --new is unknown"
planted $man/train.1 's/^Default: 300\./Default: 30./' \
    "train.1: option --steps N is 'Default: 30.', not 'Default: 300.'"
planted $man/train.1 's/^\.It Fl -dtype Cm .*/.It Fl -dtype Cm f32|bf16/' "train.1: option --dtype f32.bf16 is unknown"
planted $man/ddp-requeue.1 's/^Default: DDP.*/Default: 100./' "ddp-requeue.1: option --limit N is 'Default: 100.', not"
planted $man/ddp-bench.1 's/^\.It Fl -tensors /.It Fl -tensor /' "ddp-bench.1: reducer's option --tensors N is missing"
planted $man/ddp-ckpt.1 's/^\.It Cm verify /.It Cm check /' "ddp-ckpt.1: verb verify DIR is missing"
planted $man/ddp.1 's/^\.It Cm topo/.It Cm map/' "ddp.1: verb topo is missing"
planted $man/libddp.7 's/^\(From 1 to 1000\)000\.$/\1./' "libddp.7: setting DDP_KEEP, --ddp-keep= is "
planted $man/libddp.7 's/^\.It Ev DDP_ZERO /.It Ev DDP_ZEROS /' \
    "libddp.7: setting DDP_ZERO, --ddp-zero=auto.0.1 is missing"
planted $man/spank_ddp.8 's/bind=auto|none|print$/bind=auto|none/' \
    "spank_ddp.8: setting DDP_BIND, bind=auto.none is unknown"
planted $man/ddp.json.5 's/^Default: 29999\./Default: 30000./' "ddp.json.5: setting port_max is "
planted $man/ddp.json.5 's/^\.It Cm verbose/.It Cm new\nNew.\n&/' "ddp.json.5: setting new is unknown"
planted spank/environment.c 's/"GROUP_RANK"/"NEW_RANK"/' "spank_ddp.8: variable NEW_RANK is missing"
planted spank/step/step.h 's/"SLURM_DDP_FIRST_NODE"/"SLURM_DDP_NEW"/' "spank_ddp.8: variable SLURM_DDP_NEW is missing"
planted runtime/base/door.h 's/"DDP_GUARD_DOOR"/"DDP_NEW_DOOR"/' "spank_ddp.8: variable DDP_NEW_DOOR is missing"
planted doc/user.md 's/`GROUP_RANK`/`NEW_RANK`/' "user.md: GROUP_RANK, which a task gets, is missing"
done_testing
