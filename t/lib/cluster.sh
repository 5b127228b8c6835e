# shellcheck shell=bash disable=SC2154
# cluster.sh - for shell tests that need a real Slurm: source it after tap.sh.
#
#   cluster_up N [OPTION...]   starts a cluster of N nodes (options: contrib/cluster --help) in $cluster_dir, with the
#                              plugin of this build where there is one; it ends with the script. Where that fails, the
#                              script fails. Without root or Slurm the script is skipped.
#   cluster_run COMMAND...     `run` (tap.sh) in the cluster as the unprivileged user: sets $rc, $out, $err (steady)
#   run_steady COMMAND...      the same for a command that leads into the cluster itself
#   steady [FILE...]           what was said there, without lines that come by chance on a busy machine: srun has to
#                              wait; the port drawn is taken (nodes without --netns listen at one address, as those of
#                              other tests do)
#   ddp_lines [FILE]           what guards and plugin have said there, likewise
#   cluster_exec NODE COMMAND  runs COMMAND as root on a node
#   cluster_mpi                "pmix PMIX_RANK"; "pmi2 PMI_RANK" where this Slurm was built without PMIx, as Debian
#                              testing's 26.05
#   cluster_pid NAME           the process number of slurmctld, munged, n1, n2 ...
#   cluster_pids NODE...       the processes there, while its slurmd runs
#   cluster_die NODE...        kills them, as if these nodes' power had failed at once, but that the network says so
#   kill_srun TEXT             kills the srun whose command has that in it, as the end of a batch script does; its
#                              shepherd, a child that would end the step with SIGKILL, goes first
#   cluster_down               ends it now
#
# Variables set for a command reach it: DDP_X=1 cluster_run srun ...

cluster_dir=$tmp/cluster

cluster_need() {
    local command
    [ "$(id -u)" = 0 ] || skip_all "needs root, to start a Slurm cluster"
    for command in slurmctld slurmd srun munged; do
        PATH=$PATH:/usr/sbin:/sbin command -v "$command" >"$tmp/which" || skip_all "needs Slurm and munge ($command)"
    done
}

cluster_up() {
    local options=(--dir "$cluster_dir") folder
    cluster_need
    for folder in "$top_srcdir" "$top_builddir"; do
        setpriv --reuid nobody --regid nogroup --clear-groups test -r "$folder" -a -x "$folder" ||
            cluster_bail "users of the cluster cannot read $folder: run the tests in a folder that everyone may enter"
    done
    [ ! -f "$top_builddir/.libs/ddp.so" ] || options+=(--plugin "$top_builddir/.libs/ddp.so")
    at_exit cluster_down
    "$top_srcdir/contrib/cluster" up "${options[@]}" "$@" >"$tmp/up.out" 2>&1 || cluster_bail "$(cat "$tmp/up.out")"
}
ddp_lines() { steady "$@" | grep '^ddp: '; }
cluster_bail() {
    tap_result 1 "a cluster comes up" || diag "$1"
    done_testing
}

cluster_down() {
    [ "$tap_bad" -eq 0 ] || cluster_gone
    "$top_srcdir/contrib/cluster" down --dir "$cluster_dir"
}
# Where a test has failed: what had ended before it.
cluster_gone() {
    local file name
    for file in "$cluster_dir"/pid/*[!n]; do
        name=${file##*/}
        kill -0 "$(cluster_pid "$name")" 2>/dev/null ||
            diag "$name has ended: $(tail -qn 20 "$cluster_dir/log/$name" "$cluster_dir/log/slurmd.$name" 2>/dev/null)"
    done
}
cluster_run() { run_steady "$top_srcdir/contrib/cluster" run --dir "$cluster_dir" "$@"; }
run_steady() {
    run "$@"
    err=$(steady <<<"$err")
}
cluster_mpi() {
    cluster_run srun --mpi=list
    if grep -q pmix <<<"$out$err"; then echo pmix PMIX_RANK; else echo pmi2 PMI_RANK; fi
}
steady() {
    sed -E -e '/^(srun|salloc): job [0-9]+ (queued and waiting for|has been allocated) resources$/d' \
        -e '/^(srun|salloc): Job ([0-9]+ )?step creation (temporarily|still) disabled, retrying.*$/d' \
        -e '/^(srun|salloc): Step created for .*$/d' \
        -e '/^ddp: warning: MASTER_PORT=[0-9]+ is taken on .*: start the step again, with another port$/d' -- "$@"
}
cluster_exec() { "$top_srcdir/contrib/cluster" exec --dir "$cluster_dir" "$@"; }
kill_srun() {
    local shepherd srun
    shepherd=$(pgrep -P "$(pgrep -d, -f "^srun .*$1")")
    read -r srun < <(ps -o ppid= -p "$shepherd")
    kill -KILL "$shepherd" "$srun"
}
cluster_pid() { cut -d' ' -f1 "$cluster_dir/pid/$1"; }
cluster_pids() { cluster_in "$(cluster_spaces "$@")"; }
cluster_spaces() { # NODE...: by their UTS namespaces
    local name
    for name in "$@"; do readlink "/proc/$(cluster_pid "$name")/ns/uts"; done
}
cluster_in() { # NAMESPACES
    find /proc -maxdepth 3 -path '/proc/[0-9]*/ns/uts' -printf '%l %h\n' 2>/dev/null |
        awk -F'[ /]' -v spaces=" ${1//$'\n'/ } " 'index(spaces, " " $1 " ") { print $4 }'
}
cluster_die() {
    local spaces pid pids
    spaces=$(cluster_spaces "$@")
    # Slurm's first, guards among them, or these could say that their programs were killed.
    pids=$(for pid in $(cluster_in "$spaces"); do
        [[ $(cat "/proc/$pid/comm" 2>/dev/null) != slurm* ]] || echo "$pid"
    done)
    xargs kill -KILL <<<"$pids" 2>/dev/null
    while pids=$(cluster_in "$spaces") && [ -n "$pids" ]; do xargs kill -KILL <<<"$pids" 2>/dev/null; done
}
