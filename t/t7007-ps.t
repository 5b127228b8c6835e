#!/bin/bash
# `ddp ps`: who runs where, what libddp does there, and who holds up the others.
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
chmod 755 "$tmp"
ddp=$top_builddir/ddp
# shellcheck disable=SC2016
program='[ $RANK = 1 ] && echo $$ >$0.new && mv $0.new $0; exec "$@"'
train=("$top_builddir/train" --data /usr/share/common-licenses --layers 1 --width 32 --heads 2 --context 32
    --steps 100000000 --val-windows 1)

# stopped FILE COMMAND...: rank 1, whose pid FILE gets, stops; then COMMAND until all others wait for it
stopped() {
    until_true 30 test -s "$1" && until_true 30 trains "${@:2}" && kill -STOP "$(<"$1")" &&
        until_true 30 waits "${@:2}"
}
trains() { "$@" >"$tmp/ps" 2>"$tmp/ps.err" && [ "$(grep -c 'step [1-9]' "$tmp/ps")" = 3 ]; }
waits() { "$@" >"$tmp/ps" 2>"$tmp/ps.err" && grep -q "rank 1 .*; 2 ranks wait" "$tmp/ps"; }

# as it comes to be stopped
how="(has not entered|does not go on in) (all-reduce|all-gather) [0-9]+"

# ---- without Slurm ----
mkdir -m 777 "$tmp/out"
timeout -k 5 120 "$ddp" run -n 3 bash -c "$program" "$tmp/out/run" "${train[@]}" >"$tmp/run.out" 2>&1 &
run=$!
until_true 30 test -s "$tmp/out/run"
mine() { # of this run, beside which others may run here
    "$ddp" ps >"$tmp/all" || return
    id=$(awk -v pid="$(<"$tmp/out/run")" '$4 == pid { print $1 }' "$tmp/all") && grep "^${id:-none}[: ]" "$tmp/all"
}
ok "a rank that has stopped is found" stopped "$tmp/out/run" mine
like "... and named, with what it has not entered" "$(<"$tmp/ps")" \
    "run-[0-9a-f]+: rank 1 \\(.*\\) $how, after step [0-9]+; 2 ranks wait"
like "... and is stopped itself" "$(<"$tmp/ps")" 'run-[0-9a-f]+ +1 [^ ]+ +[0-9]+ +T '
kill -CONT "$(<"$tmp/out/run")"
kill $run
wait $run

if [ -x "$top_builddir/ddp-waits" ]; then # a build with libdw
    nap=60.$$$RANDOM
    timeout -k 5 120 "$ddp" run -n 2 sleep $nap >"$tmp/nap.out" 2>&1 &
    run=$!
    # shellcheck disable=SC2317
    naps() { "$ddp" ps >"$tmp/all" && [ "$(grep -cE " in (clock_)?nanosleep +sleep $nap$" "$tmp/all")" = 2 ]; }
    ok "of other programs: in which call they wait" until_true 30 naps
    kill $run
    wait $run
fi

# The helper stands beside ddp, or in the plugin's folder.
mkdir "$tmp/alone"
cp "$ddp" "$tmp/alone/ddp"
# shellcheck disable=SC2016
plugindir=$(make -s -C "$top_builddir" --no-print-directory --eval='show-plugindir:; @echo $(plugindir)' show-plugindir)
if [ ! -x "$plugindir/ddp-waits" ]; then
    timeout -k 5 120 "$ddp" run -n 1 sleep 60 >"$tmp/nap.out" 2>&1 &
    run=$!
    # shellcheck disable=SC2317
    lacks() {
        "$tmp/alone/ddp" ps >"$tmp/all" && grep -q "^ddp-waits is missing on [^ ]*: $plugindir/ddp-waits$" "$tmp/all"
    }
    ok "a helper that is missing is named" until_true 30 lacks || diag "$(<"$tmp/all")"
    kill $run
    wait $run
fi

# However much three ranks compute while a call is looked for, each uses one core.
spin='while :; do :; done'" # $$$RANDOM"
mkdir "$tmp/bin"
cp "$top_builddir/ddp" "$tmp/bin/ddp"
cat >"$tmp/bin/ddp-waits" <<EOF
#!/bin/sh
ticks() { cut -d' ' -f14 "/proc/\$1/stat"; }
grep -zqsF '$spin' "/proc/\$1/cmdline" || exit 0
from=\$(ticks \$1)
until [ \$((\$(ticks \$1) - from)) -ge 50 ]; do sleep .05; done
EOF
chmod 755 "$tmp/bin/ddp-waits"
timeout -k 5 120 "$ddp" run -n 3 sh -c "$spin" >"$tmp/spin.out" 2>&1 &
run=$!
spins() { "$tmp/bin/ddp" ps >"$tmp/all" && [ "$(grep -cF "$spin" "$tmp/all")" = 3 ]; }
ok "ranks that compute" until_true 30 spins
is "... use one core each at most" "$(grep -F "$spin" "$tmp/all" | awk '{ print ($6 < 1.5) }' | xargs)" "1 1 1" ||
    diag "$(<"$tmp/all")"
kill $run
wait $run

# Variables may steer a terminal; another user's do not count, though his setuid program is this user's.
esc=$'\e'
nap() { exec env SLURM_JOB_ID=7 SLURM_STEP_ID="0$esc[7m" SLURM_PROCID=0 SLURMD_NODENAME="n$esc[2J"$'\t'9 "$@"; }
nap sleep 60 &
own=$!
nap_is_seen() { "$ddp" ps >"$tmp/all" && grep -q " $own " "$tmp/all"; }
ok "a rank by its variables" until_true 30 nap_is_seen
like "... which are shown as text" "$(grep " $own " "$tmp/all")" '^7\.0\?\[7m +0 n\?\[2J 9 '
is "... also to another ddp" "$("$ddp" ps --lines | grep "	$own	" | cut -f2-5)" "7.0?[7m	n?[2J 9	0	$own"
kill $own
wait $own
mkdir "$tmp/setuid"
cp "$(command -v sleep)" "$tmp/setuid/sleep" && chmod 4755 "$tmp/setuid/sleep"
nap setpriv --reuid nobody --clear-groups "$tmp/setuid/sleep" 60 &
others=$!
has_begun() { [[ $(ps -o ruser=,euser=,comm= $others | xargs) = "nobody $(id -un) sleep" ]]; }
ok "another user's setuid program" until_true 30 has_begun
"$ddp" ps >"$tmp/all" 2>&1
is "... is none" "$(grep -c " $others " "$tmp/all")" 0
kill $others
wait $others

# A rank of libddp that waits for nobody there, as one of a loop over gloo.
printf '#!/bin/sh\nprintf %%s "$(cat %s/answer)"\n' "$tmp" >"$tmp/bin/ddp-waits"
timeout -k 5 120 "$ddp" run -n 1 "${train[@]}" >"$tmp/one.out" 2>&1 &
run=$!
does() { # ANSWER REGEX
    echo "$1" >"$tmp/answer"
    until_true 30 shows_does "$2"
}
shows_does() { "$tmp/bin/ddp" ps >"$tmp/all" && grep -qE " step [0-9]+, $1 +$top_builddir/train" "$tmp/all"; }
ok "a rank of libddp that waits in another library's call" does cgloo::allreduce "in gloo::allreduce" ||
    diag "$(<"$tmp/all")"
ok "... and one in none: libddp's last" does onanosleep "all-reduce [0-9]+" || diag "$(<"$tmp/all")"
kill $run
wait $run

# ---- under Slurm ----
cluster_up 2 --conf "SchedulerParameters=bf_interval=1" # backfill alone starts heterogeneous jobs
timeout -k 5 120 "$top_srcdir/contrib/cluster" run --dir "$cluster_dir" srun --ddp=on -N2 -n3 \
    bash -c "$program" "$tmp/out/step" "${train[@]}" >"$tmp/step.out" 2>&1 &
step=$!
until_true 30 test -s "$tmp/out/step"
( cluster_run squeue -h -t R -o %A; echo "$out" >"$tmp/job" )
read -r job <"$tmp/job"
asks() { ( cluster_run "$ddp" ps "$job.0"; printf '%s\n' "$out"; exit "$rc" ); }
ok "a step on two nodes" stopped "$tmp/out/step" asks
ranks() { awk -v s="$job.0" '$1 == s { print $2, $3, $5 }' "$@" | tr 'RD' 'S' | xargs; }
is "... each rank, as its own node tells" "$(ranks "$tmp/ps")" "0 n1 S 1 n1 T 2 n2 S"
like "... and who holds it up" "$(<"$tmp/ps")" \
    "$job.0: rank 1 \\(n1\\) $how, after step [1-9][0-9]*; 2 ranks wait"
cluster_run "$ddp" ps "$job.7"
like "a step that is not there" "$rc $out$err" "^1 ddp ps: no rank of yours runs in step $job.7"
# shellcheck disable=SC2016
cluster_run salloc -Q -N1 bash -c '"$0" ps $SLURM_JOB_ID' "$ddp"
like "a job without ranks" "$rc $out$err" "^1 ddp ps: no rank of yours runs in job [0-9]+$"
cluster_run --user root "$ddp" ps "$job"
like "another user's job" "$rc $out$err" "^1 ddp ps: srun: .*: does job $job run, and is it yours\\?$"
SLURM_LABELIO=1 cluster_run srun -N1 -n1 -c2 "$ddp" ps "$job.0"
is "from within a job on one node: its nodes all the same" "$rc $(sed 's/^0: //' <<<"$out" | ranks)$err" \
    "0 0 n1 S 1 n1 T 2 n2 S"
kill -KILL "$(cluster_pid n2)"
cluster_run "$ddp" ps "$job.0"
is "a node without slurmd is named, and the other one's ranks are shown" "$rc $(ranks <<<"$out") $err" \
    "1 0 n1 S 1 n1 T ddp ps: node n2 does not answer"
"$top_srcdir/contrib/cluster" slurmd --dir "$cluster_dir" n2
cp "$ddp" "$tmp/out/ddp"
cluster_exec n2 mount --bind /dev/null "$tmp/out/ddp"
cluster_run "$tmp/out/ddp" ps "$job.0"
like "... and so is one that has no ddp" "$rc $(ranks <<<"$out") $err" "^1 0 n1 S 1 n1 T ddp ps: .* n2: "
kill -CONT "$(<"$tmp/out/step")"
( cluster_run scancel "$job" )
wait $step
cluster_run "$ddp" ps 999999
like "a job that is not there" "$rc $out$err" "^1 ddp ps: srun: .*: does job 999999 run, and is it yours\\?$"
for wrong in 12x 12_ 12_x 12. 12_3. 12.3_4 _1 12+; do
    run "$ddp" ps $wrong
    is "no step: $wrong" "$rc $out$err" \
        "2 ddp ps: give a job or a step of it, as 1234, 1234_5 or 1234.0, or nothing (ddp ps --help)"
done

# shellcheck disable=SC2016
task='own=$0/own.$SLURM_ARRAY_TASK_ID; echo $SLURM_JOB_ID >$own.new; mv $own.new $own; srun sleep 1000'
cluster_run sbatch --parsable --array=3-4 -N1 -n1 -o /dev/null --wrap "bash -c '$task' $tmp/out"
job=$out
until_true 60 test -s "$tmp/out/own.3"
for step in "" .0; do
    # shellcheck disable=SC2317
    shows() { ( cluster_run "$ddp" ps "${job}_3$step"; printf '%s\n' "$out$err" >"$tmp/ps"; exit "$rc" ); }
    ok "a task of an array${step:+, a step of it}" until_true 60 shows
    is "... by the number that it has as a job" "$(awk '/sleep 1000$/ { print $1, $2 }' "$tmp/ps")" \
        "$(<"$tmp/out/own.3").0 0" || diag "$(<"$tmp/ps")"
done
cluster_run "$ddp" ps "${job}_5"
like "a task that is not there" "$rc $out$err" \
    "^1 ddp ps: ${job}_5: .*: give the number that it has as a job, SLURM_JOB_ID in it$"
( cluster_run scancel "$job" )

printf '#!/bin/bash\nsrun --het-group=0,1 sleep 1001\n' >"$tmp/out/het"
cluster_run sbatch --parsable -o /dev/null -N1 -n1 : -N1 -n2 "$tmp/out/het"
job=$out
# shows_ranks N ASKED: all N that run there
shows_ranks() {
    # shellcheck disable=SC2317
    ( cluster_run "$ddp" ps "$2"; grep 'sleep 1001$' <<<"$out" >"$tmp/ps"; [ "$(wc -l <"$tmp/ps")" = "$1" ] )
}
ok "a heterogeneous job" until_true 60 shows_ranks 3 "$job"
step=$(awk 'NR == 1 { sub(/.*[.]/, "", $1); print $1 }' "$tmp/ps") # what was asked before it began has numbers, too
is "... its ranks, on the nodes of both components" \
    "$(awk '{ print $1, $2 }' "$tmp/ps" | xargs) $(awk '{ print $3 }' "$tmp/ps" | sort -u | xargs)" \
    "$job.$step 0 $job.$step 1 $job.$step 2 n1 n2"
for component in "$job+1" "$((job + 1)).$step"; do
    shows_ranks 2 "$component"
    is "... the second component alone: $component" "$(awk '{ print $1, $2 }' "$tmp/ps" | xargs)" \
        "$job.$step 1 $job.$step 2"
done
cluster_run "$ddp" ps "$job+2"
like "... which has no third" "$rc $err" "^1 ddp ps: $job\\+2: it does not run"
( cluster_run scancel "$job" )
done_testing
