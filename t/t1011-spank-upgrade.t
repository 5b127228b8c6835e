#!/bin/bash
# ddp.so is exchanged, and taken away, under running steps and under an srun that waits, as dpkg does it: by rename, or
# unlink. Steps that run end well, new ones have the new one or say that there is none, and no node is the worse for it.
source "$(dirname "$0")/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
[ -f "$top_builddir/.libs/ddp.so" ] || skip_all "built without Slurm"
plugin=$tmp/lib/ddp.so
mkdir -m 755 "$tmp/lib" && mkdir -m 1777 "$tmp/user"
# put VERSION: what dpkg does to install a file, or another one in its place
put() {
    LC_ALL=C sed "s/${version//./\\.}/$1/g" "$top_builddir/.libs/ddp.so" >"$plugin.dpkg-new" &&
        chmod 644 "$plugin.dpkg-new" && mv -f "$plugin.dpkg-new" "$plugin"
}
version=$("$top_builddir/ddp" --version | sed 's/.* //')
later=8.${version#*.} latest=9.${version#*.} # other strings may lie in its end
put "$version"
cluster_up 2 --plugin "$plugin"
sed s/required/optional/ "$cluster_dir/conf/plugstack.conf" >"$tmp/lib/ddp.conf"
echo "include $tmp/lib/ddp.conf" >"$cluster_dir/conf/plugstack.conf" # contrib/cluster would miss the plugin

# A step of two tasks, which say that they run, wait for release, and then wire up.
cat >"$tmp/held" <<'HELD'
echo >"$1/begun"
read -r go <"$1/go.$SLURM_PROCID"
echo "rank ${RANK-none} version ${DDP_VERSION-none}"
[ -z "${RANK-}" ] || exec "$2/t/lib/bootprobe" --timeout 30
HELD
mkfifo -m 666 "$tmp"/{begun,go.0,go.1}
exec {begun}<>"$tmp/begun" {go0}<>"$tmp/go.0" {go1}<>"$tmp/go.1"
# start SRUN-OPTION...: in the background
start() {
    "$top_srcdir/contrib/cluster" run --dir "$cluster_dir" srun -N2 -n2 "$@" sh "$tmp/held" "$tmp" "$top_builddir" \
        >"$tmp/held.$#.out" 2>"$tmp/held.$#.err" </dev/null &
    held=$! files=$tmp/held.$#
}
begins() {
    local line
    read -rt 60 -u $begun line && read -rt 60 -u $begun line
}
# ends DESC PID FILES WANT: it is released, and ends well, on the plugin that it began with
ends() {
    rc=0
    echo >&$go0 && echo >&$go1
    wait "$2" || rc=$?
    is "$1" "$rc:$(grep -v '^rank . of' "$3.out" | sort):$(steady "$3.err")" "0:$4:"
}
waits() {
    cluster_run squeue -h -t PD -o %i
    [ -n "$out" ]
}
sound() {
    cluster_run sinfo -h -N -t drain,down,fail -o "%N %E"
    is "$1: no node is drained, or down" "$out" ""
}
both() { printf 'rank 0 version %s\nrank 1 version %s' "$1" "$1"; }
show=(sh -c 'echo "rank ${RANK-none} version ${DDP_VERSION-none}"')

start --ddp=on
ok "a step runs" begins
ok "an upgrade under it" put $later
cluster_run srun -N2 -n2 --ddp=on "${show[@]}"
is "... the next step has the new one" "$rc:$(sort <<<"$out")" "0:$(both $later)"
ends "... the step that ran ends well, on the old one" $held "$files" "$(both "$version")"
sound "after an upgrade"

start --ddp=on
ok "a step runs" begins
first=$held first_files=$files
start --exclusive --ddp=on
ok "an srun waits for its nodes" until_true 30 waits
ok "an upgrade under both" put $latest
ends "... the step ends well" $first "$first_files" "$(both $later)"
ok "... the srun that waited has its step" begins
ends "... with the new one on its nodes" $held "$files" "$(both $latest)"
sound "after an upgrade under an srun that waits"

start --ddp=on
ok "a step runs" begins
rm "$plugin"
cluster_run srun -N2 -n2 --ddp=on true
like "the plugin is gone: --ddp is an unknown option" "$rc:$err" "^[1-9][0-9]*:.*srun: unrecognized option '--ddp=on'"
cluster_run srun -N2 -n2 "${show[@]}"
is "... steps without --ddp start" "$rc:$(sort -u <<<"$out")" "0:rank none version none"
SLURM_DDP=on cluster_run srun -N2 -n2 "${show[@]}"
is "... with SLURM_DDP too, without its variables" "$rc:$(sort -u <<<"$out")" "0:rank none version none"
ends "... the step that ran ends well" $held "$files" "$(both $latest)"
sound "after a removal"

put "$version"
start --ddp=on
ok "back again: a step runs" begins
first=$held first_files=$files
start --exclusive --ddp=on
ok "an srun waits for its nodes" until_true 30 waits
SLURM_DDP='' cluster_run sbatch -N2 --ddp=on -o "$tmp/user/batch" --wrap "srun -n2 ${show[*]@Q}"
batch=${out##* }
rm "$plugin"
ends "a removal under both: the step ends well" $first "$first_files" "$(both "$version")"
ok "... the srun that waited has its step" begins
none=$'rank none version none\nrank none version none'
ends "... without variables" $held "$files" "$none"
over() {
    cluster_run squeue -h -j "$batch"
    [ -z "$out" ]
}
ok "... the batch job that waited ends" until_true 60 over
is "... and its step ran without variables" "$(grep ^rank "$tmp/user/batch")" "$none"
sound "after a removal under an srun that waits"
put "$version"
cluster_run srun -N2 -n2 --ddp=on "$top_builddir/t/lib/bootprobe"
is "back again, all is well" "$rc:$(wc -l <<<"$out")" 0:2
done_testing
