#!/bin/bash
# Programs that are started again in the same allocation (--ddp=on,restarts=R) under a real Slurm: any program, and
# libddp's, whose result is that of a run that nothing disturbed.
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
chmod 755 "$tmp"
mkdir -m 777 "$tmp/out"

# Only the backfill scheduler starts heterogeneous jobs; by default it looks twice a minute.
cluster_up 4 --conf SchedulerParameters=bf_interval=1
export NAP=600.$$$RANDOM # what programs sleep, by which they are found
nothing_left() { ! pgrep -fx "sleep $NAP" >"$tmp/left"; }
lines() { ddp_lines "${1:-$tmp/run.err}"; }
step() { # RESTARTS COMMAND: eight ranks on four nodes
    rm -f "$tmp"/out/*
    cluster_run srun --ddp=on,restarts="$1" -N4 -n8 --ntasks-per-node=2 bash -c "$2" "$tmp/out"
}

# ---- any program ----
# shellcheck disable=SC2016
step 2 'echo "$DDP_RESTART $TORCHELASTIC_RESTART_COUNT $TORCHELASTIC_MAX_RESTARTS $MASTER_PORT" >"$0/$RANK.$DDP_RESTART"
    [ $DDP_RESTART = 1 ] && exit; sleep $NAP & [ $RANK = 5 ] && exit 3; wait'
is "after a death all programs are started again" "$rc $(ls "$tmp/out" | xargs)" \
    "0 0.0 0.1 1.0 1.1 2.0 2.1 3.0 3.1 4.0 4.1 5.0 5.1 6.0 6.1 7.0 7.1"
like "... which is said once" "$(lines)" '^ddp: rank 5 \(n3\) exited with code 3 after [0-9]+ s: restart 1 of 2$'
is "... they hear the generation" "$(cut -d" " -f1-3 "$tmp"/out/*.1 | sort -u)" "1 1 2"
is "... and meet at a port of their own" "$(cut -d" " -f4 "$tmp"/out/* | sort -u | wc -l)" 2
ok "... and of the first ones nothing is left" nothing_left
# shellcheck disable=SC2016
step 1 'echo >"$0/$RANK.$DDP_RESTART"; [ $RANK = 0 ] && kill -KILL $$; exec sleep $NAP'
is "as often as was asked" "$(lines | sed 's/after [0-9]* s/after T s/')" \
    "ddp: rank 0 (n1) was killed by signal 9 (Killed) after T s: restart 1 of 1
ddp: rank 0 (n1) was killed by signal 9 (Killed) after T s: the step ends"
ok "... and nothing is left" until_true 30 nothing_left
# shellcheck disable=SC2016
step 1 '[ $DDP_RESTART = 1 ] && exit; [ $RANK = 6 ] && kill -TERM $$; exec sleep $NAP'
is "after a signal that ends steps, too, to one rank alone" "$rc $(lines | sed 's/after [0-9]* s/after T s/')" \
    "0 ddp: rank 6 (n4) was killed by signal 15 (Terminated) after T s: restart 1 of 1"
# shellcheck disable=SC2016
step 9 '[ $RANK = 6 ] && exit 4; exec sleep $NAP'
like "a rank that dies again and again ends the step" "$rc $(lines | tail -n 1)" \
    '^[1-9][0-9]* ddp: rank 6 \(n4\) exited with code 4 after .* s, soon after its start, 3 times in a row: '
# shellcheck disable=SC2016
step 1 '[ $RANK != 3 ] && exit 0; [ $DDP_RESTART = 1 ] || { sleep 1; exit 1; }' # the others have ended
is "who has finished is started again, too" "$rc $(lines | cut -d: -f3)" "0  restart 1 of 1"
# shellcheck disable=SC2016
step 1 'trap "" TERM; echo >"$0/$RANK.$DDP_RESTART"; [ $DDP_RESTART = 1 ] && exit; [ $RANK = 1 ] && exit 1; sleep $NAP'
is "... and who does not end by SIGTERM" "$rc $(find "$tmp/out" -name '*.1' | wc -l)" "0 8"

# Of two components, whose nodes Slurm lists in another order; without PMIx: t1002-spank-environment.t.
rm -f "$tmp"/out/*
# shellcheck disable=SC2016
program='echo >"$0/$RANK.$DDP_RESTART"; [ $DDP_RESTART = 1 ] && exit; [ $RANK = 3 ] && exit 1; exec sleep $NAP'
cluster_run srun --ddp=on,mpi=none,restarts=1 -w n4 -n2 bash -c "$program" "$tmp/out" : \
    -w n1,n2,n3 -n6 bash -c "$program" "$tmp/out"
is "a heterogeneous step" "$rc $(find "$tmp/out" -name '*.1' | wc -l) $(lines | cut -d: -f3)" "0 8  restart 1 of 1"

# ---- standard input ----
cluster_run bash -c 'echo x | srun --ddp=on,restarts=1 -N2 -n4 cat'
is "standard input ends, for each task of a node" "$rc $(xargs <<<"$out") $(lines)" "0 x x x x "
# shellcheck disable=SC2016
cluster_run bash -c 'printf "one\ntwo\n" | srun --ddp=on,restarts=1 -N2 -n4 bash -c "$0"' \
    '[ $DDP_RESTART = 1 ] && exec cat; [ $RANK = 1 ] && read -r line && kill -KILL $$; exec sleep $NAP'
is "... and for those that read what is left of it" "$rc $(sort <<<"$out" | xargs) $(lines | cut -d: -f3)" \
    "0 one one one two two two two  restart 1 of 1"

# ---- two programs of libddp, one after the other ----
few=(--data /usr/share/common-licenses --layers 1 --width 32 --heads 2 --context 32 --steps 3 --val-windows 1)
# shellcheck disable=SC2016
cluster_run srun --ddp=on,restarts=1 -N2 -n4 bash -c '"$@" && "$@"' "$tmp" "$top_builddir/train" "${few[@]}"
is "a task may run two programs of libddp" "$rc $(grep -c '^step 3/3 loss' <<<"$out") $(lines)" "0 2 "

# ---- refused ----
cluster_run env SHELL=/bin/sh script -qec 'srun --pty --ddp=on,restarts=1 -N1 -n1 true' /dev/null
like "not with a terminal of the step's own" "$rc $out" \
    '^1 .*restarts: not with a terminal of the step.*: say restarts=0, or leave out --pty'
cluster_run env SHELL=/bin/sh TERM=xterm LC_ALL=C script -qec \
    "stty cols 80; srun --pty --ddp=on -N2 -n2 $top_builddir/train ${few[*]}" /dev/null
like "... which else is where training is seen" "$rc $out" '^0 .*1/3 .*#+.*\.+.*33%.*tokens/s.* [0-9.]+.*step 3/3 loss'

# ---- training ----
train=$top_builddir/train
args=(--data /usr/share/common-licenses --layers 1 --width 32 --heads 2 --context 32 --batch 2 --steps 1500
    --val-windows 4 --log-every 100 --print-hash)
hash_of() { grep -oE 'hash.*' <<<"$1" | tail -n 1; }
place=(-N2 -n4 --ntasks-per-node=2 -m block)
cluster_run srun --ddp=on "${place[@]}" "$train" "${args[@]}"
want=$(hash_of "$out")
# Rank 3 is killed, and goes on from memory; then rank 0, whose memory is damaged first: from the copy that rank 2, on
# the other node, has; then both, damaged: from files.
printf '%s\n' "3 203" "0 607 damage" "0,2 1011 damage" >"$tmp/kills"
cluster_run srun --ddp=on,restarts=4 "${place[@]}" \
    "$top_srcdir/t/lib/victim" "$tmp/kills" "$tmp/out/log" "$train" "${args[@]}" \
    --ckpt "$tmp/out/ckpt" --ckpt-every 50 --log-json "$tmp/out/log"
is "./train killed three times: exit code and result" "$rc $(hash_of "$out")" "0 $want"
like "... each is said" "$(lines | grep -oE 'rank [0-9]+ \(n|restart.*' | xargs)" \
    '^rank 3 \(n restart 1 of 4 rank 0 \(n restart 2 of 4 rank [02] \(n restart 3 of 4$'
like "... goes on from memory, where that is whole" "$(grep '^resumed from' <<<"$out")" \
    '^resumed from memory, at step [0-9]+
resumed from memory, at step [0-9]+
resumed from .*/step-[0-9]+, at step [0-9]+$'
like "... and says what is not" "$err" '1 rank had no snapshot of step [0-9]+ and took the copy that another.*'\
'snapshots in memory are not used: (rank [02]: .* of step [0-9]+ is damaged|there is a checkpoint of step)'
is "... and loses nothing of the log" "$(sed -n 's/^{"step": \([0-9]*\),.*/\1/p' "$tmp/out/log" | uniq | tr '\n' ' ')" \
    "$(seq -s ' ' 1500) "

# ---- one rank's last checkpoint ----
broken=(env LD_PRELOAD="$top_builddir/t/lib/.libs/fault.so" FAULT_DIR="$tmp/out/broken" FAULT_FROM=.saving- FAULT_RANK=1
    FAULT_AT=1 FAULT_DO=EIO FAULT_TIMES=0)
cluster_run srun --ddp=on,restarts=5 "${place[@]}" "${broken[@]}" "$train" "${few[@]}" --ckpt "$tmp/out/broken"
like "whose last checkpoint cannot be written is named, whoever says so first" "$rc $(lines)" \
    '^1 ddp: rank 1 \(n1\) aborted: the checkpoint of step 3, .*: restart 1 of 5
.*rank 1 \(n1\) aborted: .*: restart 2 of 5
.*rank 1 \(n1\) aborted: .* 3 times in a row'
done_testing
