#!/bin/bash
# What one sees while it trains: a block on a terminal, drawn in place, beside whole lines; few lines elsewhere.
source "$(dirname "$0")/lib/tap.sh"
train=$top_builddir/train
unset RANK WORLD_SIZE OMP_NUM_THREADS NO_COLOR "${!SLURM@}" "${!DDP_@}"
export TERM=xterm SHELL=/bin/sh
small=(--data /usr/share/common-licenses/GPL-3 --layers 1 --width 32 --context 32 --batch 4 --val-windows 4)

# What FILE leaves on a terminal, history included; then how often a block was drawn, the columns of the longest line
# that was drawn in one, and the column of the cursor.
cat >"$tmp/screen" <<'EOF2'
import re, sys
screen, row, column, widest, frames = [""], 0, 0, 0, 0
for up, escape, newline, text in re.findall(r"\x1b\[(\d+)A|(\x1b\[[\d;]*[A-Za-z])|(\r?\n|\r)|([^\x1b\r\n]+)",
                                           open(sys.argv[1], newline="", encoding="utf-8").read()):
    if up:
        row -= int(up)
    elif escape == "\x1b[K": # only a block's lines end with it
        screen[row] = screen[row][:column]
        widest = max(widest, column)
    elif escape == "\x1b[J":
        frames += 1
        screen[row:] = [screen[row][:column]]
    elif newline:
        column, row = 0, row + (newline != "\r")
        screen += [""] * (row + 1 - len(screen))
    elif text:
        screen[row] = screen[row][:column] + text + screen[row][column + len(text):]
        column += len(text)
print("\n".join(screen), f"frames {frames}", f"widest {widest}", f"cursor {column}", sep="\n")
EOF2
# terminal COLUMNS COMMAND...: on a pseudo terminal; sets $rc, $out (what was written), $screen
terminal() {
    printf '%q ' "${@:2}" >"$tmp/command"
    run script -qec "stty cols $1 rows 24; . $tmp/command" "$tmp/typescript"
    sed -i '1d;$d' "$tmp/typescript" # when it began and ended
    out=$(cat "$tmp/typescript")
    screen=$(python3 "$tmp/screen" "$tmp/typescript" | tr -d '\r')
}
value() { sed -n "s/^$1 //p" <<<"$screen"; }
esc=$'\033'

began=${EPOCHREALTIME/./}
terminal 40 "$train" "${small[@]}" --steps 1500
took=$((${EPOCHREALTIME/./} - began)) # microseconds
is "on a terminal it trains" "$rc" 0 || diag "$out"
like "a block with a bar is drawn" "$out" "1/1500 .*━.*[0-9]%.*loss.* [0-9.]+.*tokens/s.* [0-9.]+"
ok "... again in place" [ "$(value frames)" -gt 2 ] || diag "$screen"
ok "... four times a second" [ "$(value frames)" -le $((took / 250000 + 8)) ] || diag "$screen"
ok "... no wider than the terminal" [ "$(value widest)" -le 39 ]
like "... in colour" "$out" "$esc\[32m"
unlike "... and goes" "$screen" '━|tokens/s'
like "lines of the first and the last step stay" "$screen" $'\nstep 1/1500 loss .*\nstep 1500/1500 loss '
is "... and no others" "$(grep -c '^step .* lr ' <<<"$screen")" 2
is "the cursor is left on a line of its own" "$(value cursor)" 0

terminal 100 env -u LC_ALL -u LC_CTYPE LANG=C NO_COLOR=1 "$train" "${small[@]}" --steps 1500 --log-every 300 \
    --val-every 500 --ckpt "$tmp/ckpt" --ckpt-every 700
like "ASCII where the locale has no more" "$out" 'step [0-9]+/1500 \[#*\.+\]'
unlike "NO_COLOR" "$out" "$esc\[[0-9;]*m"
lines=$(grep -o '^\(step [0-9]*/1500 \(val \)\?loss\|checkpoint step-[0-9]* comm.*B$\)' <<<"$screen" | cut -d' ' -f1-3 |
    sed 's/step-000014../step-000014../' | LC_ALL=C sort | paste -sd,) # later, where that of step 700 takes long
is "lines that come meanwhile are whole" "$lines" "checkpoint step-00000700 committed:,\
checkpoint step-000014.. committed:,checkpoint step-00001500 committed:,step 1/1500 loss,step 1000/1500 val,\
step 1200/1500 loss,step 1500/1500 loss,step 1500/1500 val,step 300/1500 loss,step 500/1500 val,step 600/1500 loss,\
step 900/1500 loss" || diag "$screen"
after=$(sed -n '/step 600\/1500 loss/{n;s/^[^s]*step \([0-9]*\).*/\1/p}' <<<"$out")
ok "... and the block, as it was, comes back below at once" [ "$after" -le 600 ]

SLURM_JOB_END_TIME=$(($(date +%s) + 7300)) terminal 80 "$top_builddir/ddp" run -n 2 "$train" "${small[@]}" --steps 1500
like "two ranks: exposed communication, when the job ends" "$out" "exposed comm.* [0-9.]+%.*job ends in.* 2h 0[01]m"

# One that is stopped, and that meets a folder that is not there.
printf '%q ' exec "$train" "${small[@]}" --steps 100000000 --ckpt "$tmp/stopped" --ckpt-every 100 >"$tmp/command"
mkdir "$tmp/bin"
printf '#!/bin/sh\necho JobId=5 JobName=x JobState=RUNNING BatchFlag=1 EndTime=%s NodeList=n1\n' \
    $(($(date +%s) + 7300)) >"$tmp/bin/scontrol"
chmod 755 "$tmp/bin/scontrol"
SLURM_JOB_ID=5 PATH=$tmp/bin:$PATH timeout -k 5 60 script -qefc "stty cols 60; echo \$\$ >$tmp/pid; . $tmp/command" \
    "$tmp/typescript" >"$tmp/out" </dev/null &
until_true 30 grep -q 'committed' "$tmp/typescript" && mv "$tmp/stopped" "$tmp/away"
until_true 30 grep -q 'failed' "$tmp/typescript"
mv "$tmp/away" "$tmp/stopped"
says_end() { sed "s/$esc\[[0-9;]*m//g" "$tmp/typescript" | grep -qE 'job ends (first, )?in 2h 0[01]m'; }
ok "the job's end, as the controller says it" until_true 30 says_end
kill "$(cat "$tmp/pid")"
rc=0
wait $! || rc=$?
sed -i '1d;$d' "$tmp/typescript"
screen=$(python3 "$tmp/screen" "$tmp/typescript" | tr -d '\r')
is "stopped: the exit code" $rc 75
like "... a line says so" "$screen" $'\n''train: stopped by SIGTERM, with a checkpoint'
like "... a warning is whole" "$screen" $'\n''train: warning: the checkpoint of step [0-9]+ failed: [^━]*No such file'
unlike "... no block is left" "$screen" '━|tokens/s'
is "... nor the cursor behind a line" "$(value cursor)" 0

# Elsewhere.
terminal 80 env TERM=dumb "$train" "${small[@]}" --steps 20
unlike "a terminal that can do nothing" "$out" "$esc"
like "... has lines" "$out" 'step 10/20 loss'
run "$train" "${small[@]}" --steps 1500
is "a pipe: lines of the first 100 steps, then by time" \
    "$(sed -n 's/^step \([0-9]*\).* lr .*/\1/p' <<<"$out" | paste -sd' ')" "1 10 20 30 40 50 60 70 80 90 100 1500"
unlike "... nothing else" "$out" "$esc"
run "$train" "${small[@]}" --steps 150 --log-every 10
is "... as many as one says" "$(grep -c ' lr ' <<<"$out")" 16

run "$train" "${small[@]}" --steps 20 --quiet --val-every 10 --ckpt "$tmp/quiet" --ckpt-every 7 \
    --ddp-record="$tmp/quiet.jsonl"
like "--quiet: the last result" "$rc$err $(wc -l <<<"$out") $out" '^0 1 step 20/20 val loss [0-9.]+$'
terminal 80 "$train" "${small[@]}" --steps 20 --quiet --print-hash
like "... on a terminal, too, and what was asked for" "$(tr -d '\r' <<<"$out")" \
    $'^step 20/20 val loss [0-9.]+\nparams hash [0-9a-f]+$'
done_testing
