#!/bin/bash
# The Python package slurm_ddp without PyTorch: pip installs it; every sample once an epoch, on changing numbers of
# ranks; a stop after the same step; what becomes of a rank is told to the others; states and random numbers come back.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
unset RANK WORLD_SIZE "${!SLURM@}" "${!DDP_@}" "${!PIP_@}"
export PYTHONPATH=$top_srcdir/contrib/python PYTHONDONTWRITEBYTECODE=1 DDP_LIBRARY=$top_builddir/.libs/libddp.so.0
python=/usr/bin/python3
probe=("$python" "$top_srcdir/t/lib/pyprobe.py")
ranks() { run "$top_builddir/ddp" run -n "$@"; } # N [OPTION...] COMMAND...

is "the version is libddp's" "$("$python" -c 'import slurm_ddp; print(slurm_ddp.__version__)')" \
    "$(sed -n 's/^#define DDP_VERSION "\(.*\)"/\1/p' "$top_srcdir/runtime/ddp.h")"
run "${probe[@]}" sampler
is "an epoch: every sample once, no rank ever without one" "$rc:$out$err" 0:ok
run "${probe[@]}" resume
is "stops, other numbers of ranks, batches that were read ahead: every sample once" "$rc:$out$err" 0:ok
run "${probe[@]}" order 10 7 3
first=$out
run "${probe[@]}" order 10 7 4
like "an order of an epoch, another one of the next" "$first:$out" '^([0-9] ){9}[0-9]:([0-9] ){9}[0-9]$'
unlike "... indeed" ":$first" ":$out"

ranks 3 "${probe[@]}" stop
is "stop_requested(): all ranks after the same step, which exit with 75" \
    "$rc:$(sort -u <<<"$out")" "75:stopped after step 20"
ranks 3 "${probe[@]}" stop "$tmp/stop"
is "a Checkpoint: likewise" "$rc:$(sort -u <<<"$out")" "75:stopped after step 20"
is "... saved" "$(ls "$tmp/stop")" step-00000020
is "... and said once" "$err" "stopped by SIGUSR1, with a checkpoint of step 20"
SLURM_JOB_ID=1 SLURM_JOB_END_TIME=$(($(date +%s) + 5000)) ranks 2 "${probe[@]}" deadline
like "deadline(): on all ranks" "$rc:$out" $'^0:(49[0-9][0-9]|5000)\n(49[0-9][0-9]|5000)$'

ranks 4 --layout 2,1,1 "${probe[@]}" peers "$tmp/peers"
is "a rank that is killed while a child of its lives: all others are told" \
    "$(grep -c '^peer rank 3 (.*) died' <<<"$out")" 3
run "${probe[@]}" children "$tmp/children"
is "SIGTERM from Slurm leaves a rank's children, that of the rank ends them" "$rc:$out" "0:ok"
for how in spawn forkserver; do
    run "${probe[@]}" spawned "$tmp/spawned" $how
    is "... likewise by $how, and SIGUSR1 and SIGUSR2" "$rc:$out" "0:ok" || diag "$err"
    ranks 2 "${probe[@]}" workers $how
    is "a worker by $how sees world(), also at the top of a module, and nothing else" \
        "$rc:$(sort -u <<<"$out")" "0:ok" || diag "$err"
    run "${probe[@]}" workers $how
    is "... one of a process that is no rank is a rank" "$rc:$out" "0:ok" || diag "$err"
done
ranks 3 "${probe[@]}" raises "$tmp/raises"
is "an exception: all others are told which" \
    "$(grep -c '^peer rank 1 (.*) aborted: ValueError: no such file: left.txt$' <<<"$out")" 2
like "... and the rank itself, as Python does" "$err" 'Traceback .*'$'\n''ValueError: no such file: left.txt'

DDP_RECORD=$tmp/dies ranks 2 "$python" -c 'import os, signal, sys, slurm_ddp
ckpt = slurm_ddp.Checkpoint(sys.argv[1], every=0, plain={})
for step in range(100):
    if step == 7 and slurm_ddp.world().rank == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    ckpt.step()' "$tmp/dies.ckpt"
like "a rank that dies, and an exception that nobody catches: so the record says" "$(grep '"failure"' "$tmp/dies")" \
    '"step": 7, "text": "rank 1 \(.*\) died.*", "rank": 1, "node": "'

ranks 3 "${probe[@]}" state "$tmp/state" new
first=$(sort <<<"$out")
is "a state is saved" "$rc:$err" 0:
ranks 3 "${probe[@]}" state "$tmp/state"
is "... and is there again, each rank's random numbers from the first batch on" "$rc:$err$(sort <<<"$out")" "0:$first"
ranks 3 "${probe[@]}" state "$tmp/state"
is "... also from what was saved before that" "$rc:$err$(sort <<<"$out")" "0:$first"
for n in 2 0; do
    DDP_CKPT_EVERY=1 run "${probe[@]}" every "$tmp/every$n" $n
    is "every=$n, keep=3" "$rc:$(xargs <<<"$out$err$(ls "$tmp/every$n")")" \
        "0:$([ $n = 0 ] || echo "step-00000006 step-00000008 ")step-00000010"
done
run "${probe[@]}" every "$tmp/every2" 2
is "... the save is of what was there then, random numbers too" "$rc:$out$err" 0:
for how in more format; do
    run "${probe[@]}" every "$tmp/every2" 2 $how
    is "... another $how is refused" "$rc:$out$err" 0:
done
run "${probe[@]}" every "$tmp/every2" 2 less
is "... what nobody asks for is named" "$rc:$out$err" \
    "0:the checkpoint of step 10 has plain, too, which nobody asks for"
ranks 2 "${probe[@]}" differ "$tmp/differ"
is "ranks whose random numbers differ in their kinds are told so" "$rc:$(sort -u <<<"$out")" "0:ok" || diag "$err"
ranks 2 "${probe[@]}" full "$tmp/full"
is "a save that fails is told on all ranks, with the reason, also where one of the same step is there" \
    "$rc:$(sort -u <<<"$out")" "0:ok" || diag "$err"
for i in {1..8}; do # which rank hears of it first is chance
    ranks 2 "${probe[@]}" fails "$tmp/fails"
    grep -E '^the checkpoint of step 1 failed: rank 1: .*File too large' <<<"$err" || diag "$i: $err"
done >"$tmp/why"
is "one that nobody catches: rank 0 has said why before the first rank ends" "$(grep -c ^the "$tmp/why")" 8 ||
    cat "$tmp/why"
mkdir "$tmp/waits"
waited() { # REQUIRED TIMES
    ranks 2 env DDP_TIMEOUT=3 DDP_CKPT_REQUIRED="$1" LD_PRELOAD="$top_builddir/t/lib/.libs/fault.so" \
        FAULT_DIR="$tmp/waits/$1-$2" FAULT_RANK=1 FAULT_FROM=.saving- FAULT_AT=1 FAULT_DO=ENOSPC FAULT_TIMES="$2" \
        "${probe[@]}" waits "$tmp/waits/$1-$2"
    echo "$rc $(xargs <<<"$out") $(grep -c '^no space is left in .*, which is tried again for 3.0 s' <<<"$err")"
}
for required in off on; do
    for times in 1 0; do
        waited $required $times
    done >"$tmp/waited"
    is "a save waits for space, which comes or does not; required: $required" "$(xargs <"$tmp/waited")" \
        "0 saved saved 1 1 1" || diag "$err"
done
for life in 1 1 2 3; do
    ranks 2 "${probe[@]}" metrics "$tmp/metrics.$life" "$tmp/log"
done
is "a log goes on with its checkpoint; without one it is put aside" \
    "$rc:$(for file in log.1 log.2 log; do paste -sd ' ' "$tmp/$file"; done)" '0:{"step": 0} {"step": 1} {"late": true}
{"step": 0} {"late": true}
{"step": 0} {"late": true}'
like "... and said" "$err" '/log has lines, and there is no checkpoint to go on from: they are in .*/log.2 now'
echo >"$tmp/log"
run "${probe[@]}" metrics "$tmp/metrics.2" "$tmp/log"
like "... one that is shorter than it was is said, too" "$err" '/log has lost 11 bytes since the checkpoint was saved'
ranks 2 "${probe[@]}" progress "$top_builddir/ddp"
like "ddp ps shows the steps" "$rc:$out" '^0:run-.* step 3, all-reduce [0-9]+ ' || diag "$err"
ranks 2 env DDP_RECORD="$tmp/record" "${probe[@]}" record "$tmp/recorded"
is "record(): an event of the program's own; what is wrong is said" "$rc:$err$(sort -u <<<"$out")" "0:ok"
like "... and is named by its script" "$(head -n 1 "$tmp/record")" '"program": "python3?[0-9.]* pyprobe.py"'
is "... from rank 0 alone" "$(sed -n 's/, "t": [0-9.]*//; /"epoch"\|"validation"/p' "$tmp/record")" '{"event": "epoch"}
{"event": "validation", "step": 3, "loss": 2.5, "worst": null, "each": [[1, null], {"a": null}], "name": "\"\n\u2603"}'
ranks 2 "${probe[@]}" record "$tmp/unrecorded"
is "... and without a record nothing" "$rc:$err$(sort -u <<<"$out")" "0:ok"
ranks 2 env DDP_RECORD="$tmp/peak" DDP_PROMETHEUS="$tmp/peak.prom" "${probe[@]}" peak "$tmp/peaks"
peaks() { grep -o '"memory_bytes": [^]]*' "$tmp/peak" | grep -oE '[0-9]{5,}' | sort -n; } # from the least
is "Prometheus' file: the peak is that of all ranks to the end" \
    "$rc:$err$(sed -n 's/^ddp_memory_peak_bytes{.*} //p' "$tmp/peak.prom")" "0:$(peaks | tail -n 1)"
ok "... which was another's than rank 0's" test "$(peaks | tail -n 1)" -gt $(($(peaks | head -n 1) + (32 << 20)))
is "... and without items there is no sample of them" "$(grep -c '^ddp_items_total' "$tmp/peak.prom")" 0
is "... nor of parts that no part() has told, in the record null" \
    "$(sed -n 's/.*part="\([a-z]*\).*/\1/p' "$tmp/peak.prom" | xargs)
$(grep -o '"data": .*, "exposed"\|"optimizer": [^,]*\|"compute_s": [^,]*' "$tmp/peak" | sort -u)" \
    'exposed checkpoint other
"compute_s": null
"data": null, "forward": null, "backward": null, "exposed"
"optimizer": null'
run "$top_builddir/ddp" report "$tmp/peak"
is "... and not reported" "$(sed -n "/step's time/,/^\$/s/^  \([a-z]*\) .*/\1/p" <<<"$out" | xargs)" \
    "exposed checkpoint other"
# goodput of two ranks, in a job whose Slurm is these two programs
mkdir "$tmp/bin"
printf '#!/bin/sh\nfor format; do :; done\necho "$format" | sed "s/%%i/4711/; s/%%k/mine/"\n' >"$tmp/bin/squeue"
cat >"$tmp/bin/scontrol" <<EOF
#!/bin/sh
[ "\$1" = update ] && echo "\$*" >$tmp/comment && [ ! -e $tmp/denied ] || { echo denied >&2; exit 1; }
EOF
chmod 755 "$tmp"/bin/*
goodput() { # NAME: its record, and its checkpoints
    SLURM_JOB_ID=4711 SLURM_JOB_END_TIME=9999999999 PATH=$tmp/bin:$PATH \
        ranks 2 env ${1:+DDP_RECORD="$tmp/$1"} "${probe[@]}" goodput "$tmp/worth$1"
}
goodput twice
goodput twice
like "goodput(): a line on rank 0, of all starts" "$rc:$err:$(sort <<<"$out")" \
    '^0::None'$'\n''goodput [0-9.]+% of [0-9.]+ m?s: useful .*, start-up [0-9.]+ m?s(, idle .*)?$'
like "... the job's comment, behind the user's" "$(<"$tmp/comment")" \
    '^update JobId=4711 Comment=mine \| ddp: goodput [0-9.]+% of [0-9.]+ m?s$'
like "... the record has ended" "$(tail -n 1 "$tmp/twice")" '"event": "end", .*"step": 6, "how": "done"'
touch "$tmp/denied"
goodput denied
is "a comment that Slurm refuses is a warning, once" \
    "$rc:$err" "0:the goodput is not in the job's comment: scontrol: exit code 1: denied"
rm "$tmp/comment"
goodput ""
is "without a record: None" "$rc:$err:$(sort -u <<<"$out")" "0::None"
ok "... and no comment" test ! -e "$tmp/comment"
ranks 2 env DDP_RECORD="$tmp/parts" "${probe[@]}" parts "$tmp/parts.ckpt"
is "part(), batches(): where the time of steps goes" "$rc:$out$err" "0:ok"
run "$top_builddir/ddp" report "$tmp/parts"
like "... of all ranks, to the end" "$(grep -c '"compute_s": \[[0-9.]*, [0-9.]*\]' "$tmp/parts")" '^[2-9]$'
unlike "... and of none alone" "$(<"$tmp/parts")" '"compute_s": \[[0-9.]*, null'
like "... as ddp report says it" "$out" "  forward +[1-9][0-9.]* ms.*  optimizer +[1-9][0-9.]* ms "
unlike "... which knows of no hidden communication" "$out" "hidden"
run "${probe[@]}" wrong "$tmp/wrong"
is "what is wrong is said in one line" "$rc:$out$err" 0:ok
WORLD_SIZE=4 run "${probe[@]}" wrong "$tmp/wrong"
like "torchrun or mp.spawn between is refused" "$rc:$err" \
    "^1:.*WORLD_SIZE is 4, but libddp finds 1: start one process per rank by .*, without torchrun or mp.spawn between"
RANK=1 run "${probe[@]}" wrong "$tmp/wrong"
like "... or of another rank" "$rc:$err" "^1:.*RANK is 1, but libddp finds 0: "
mkdir -p "$tmp/prefix/bin" "$tmp/prefix/lib"
cp "$top_builddir/ddp" "$tmp/prefix/bin"
ln -s "$(realpath "$DDP_LIBRARY")" "$tmp/prefix/lib/libddp.so.0"
run env -u DDP_LIBRARY PATH="$tmp/prefix/bin:$PATH" "${probe[@]}" wrong "$tmp/wrong"
is "libddp is found beside ddp" "$rc:$out$err" 0:ok
PATH=$tmp/prefix/bin:$PATH DDP_LIBRARY=/nowhere/libddp.so.0 run "${probe[@]}" wrong "$tmp/wrong"
like "no libddp" "$rc:$err" \
    '^1:.*libddp.so.0 is not there: install slurm-ddp.s libddp, or name the file in DDP_LIBRARY \(/now'
DDP_LIBRARY=libm.so.6 run "${probe[@]}" wrong "$tmp/wrong"
like "an older one" "$rc:$err" "^1:.*Error: libm.so.6 has no ddp_init: it is older than this package"

if "$python" -c "import venv, ensurepip" 2>"$tmp/venv.err"; then
    "$python" -m venv "$tmp/venv"
    cp -R "$top_srcdir/contrib/python" "$tmp/source"
    chmod -R a-w "$tmp/source"
    export PIP_CONFIG_FILE=/dev/null PIP_NO_INDEX=1
    run "$tmp/venv/bin/pip" install -q --disable-pip-version-check "$tmp/source"
    is "pip installs it, without a network, from a folder that is not written to" "$rc:$out$err" "0:"
    is "... which stays as it is" "$(cd "$tmp/source" && find . | sort)" \
        "$(cd "$top_srcdir/contrib/python" && find . | sort)"
    chmod -R u+w "$tmp/source"
    unset PYTHONPATH DDP_LIBRARY
    run "$tmp/venv/bin/python" -c 'import slurm_ddp; print(slurm_ddp.Sampler(3, 3, rank=0, size=1).__class__.__name__)'
    is "... with the library in it, which DDP_LIBRARY named" "$rc:$out$err" "0:Sampler"
    run env -C "$tmp" "$tmp/venv/bin/python" -c 'import re, slurm_ddp
print(slurm_ddp.world().size, *sorted(set(re.findall("/(slurm_ddp/.*)", open("/proc/self/maps").read()))))'
    like "... and it works by itself, with what not every Linux has beside it" "$rc:$out$err" \
        "^0:1 slurm_ddp/libddp\.so\.0 slurm_ddp/libjansson\.so\.4$"
    like "... and a tag that says which C library it wants" \
        "$(cat "$tmp"/venv/lib/python*/site-packages/slurm_ddp-*.dist-info/WHEEL)" \
        "Tag: py3-none-manylinux_2_[0-9]+_$(uname -m)"
else
    diag "pip is not tried: Debian has virtual environments in python3-venv"
fi
done_testing
