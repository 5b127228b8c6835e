#!/bin/bash
# ddp report: what it says of recorded runs, one or several; what it refuses; that it is fast, and cannot be misled.
source "$(dirname "$0")/lib/tap.sh"
export TZ=UTC LC_ALL=C.UTF-8
data=$top_srcdir/t/data/record
ddp=$top_builddir/ddp
report() { run "$ddp" report "$@"; }

report --help
like "help" "$rc:$out" "^0:usage: ddp report \[--html OUT\] FILE\.\.\."

# ---- one run ----
report "$data/killed.jsonl"
is "a run" "$rc:$err" "0:"
like "... who and how" "$out" "^train, job 1301.0: done; on n0 n1 n2 n3; slurm-ddp 0.1.0"
like "... where" "$out" "  ran on +8 ranks, 4 nodes, cpu"$'\n'
like "... how much" "$out" "  samples a step +128 = 8 x 8 x 2"$'\n'
like "... what came of it" "$out" "  steps +2000 of 2000"$'\n'"  interruptions +2 restarts, 1 requeue"$'\n'
like "... loss" "$out" "  last loss +1\.747"$'\n'"  best validation +1\.823 at 2000"$'\n'
like "... speed" "$out" "  throughput +68\.5 k tokens/s"$'\n'"  arithmetic +4\.41 TFLOP/s"$'\n'"[^:]+peak +36\.7 %"$'\n'
like "... efficiency" "$out" "  scaling efficiency +83\.8 %"$'\n'"  speedup +6\.7 x 1 rank"$'\n'
like "... communication" "$out" "  hidden communication +52\.1 %"$'\n'
like "... parts, with a bar" "$out" "  forward +131 ms +27\.3 %  █████████"
like "... that add up" "$(awk '/step.s time goes/,/^$/ { sum += $4 } END { print sum }' <<<"$out")" "^(99\.9|100)"
like "... goodput" "$out" $'\n'"goodput 74\.2% of [0-9]+ min [0-9]+ s: useful time, "
like "... what was lost" "$out" $'\n'"x lost to a failure +4 min 40 s +18\.3 %  "
like "... the sum, as long as the run" "$out" "  took +25 min 28 s.*"$'\n'"  sum +25 min 28 s"$'\n'
like "... the time line" "$out" $'\n'"  =+x+r=+x+=+-+=+"$'\n'" +F +F +R"$'\n'
is "... what happened" "$(sed -n 's/^  [0-9:]\+ *[0-9]\+  \([a-z]*\)  .*/\1/p' <<<"$out" | paste -sd' ')" \
    "start failure restart resume failure restart resume stop end requeue start resume checkpoint end"
is "... in 100 columns" "$(grep -cE '.{101}' <<<"$out")" 0
sed '20{s/"text"/"step": 437, "text"/
a\
{"event": "end", "t": 1795421127.4, "step": 437, "how": "failed"}\
{"event": "failure", "t": 1795421127.5, "by": "guard", "text": "rank 5 (n2) was killed by signal 9 (Killed) after \
327 s: restart 1 of 3", "rank": 5, "node": "n2", "restart": 0}
}' "$data/killed.jsonl" | sed '/after $/N; s/\n//' >"$tmp/told"
report "$tmp/told"
like "a failure of which a guard knows more: its cause, at the program's step, and no end before the restart" \
    "$rc:$err:$out" "^0::.* 437  failure +rank 5 \(n2\) was killed by signal 9 \(Killed\) after 327 s: restart 1 of 3
 [^
]* 437  restart  "
sed 's/"ranks": 8/"ranks": 1/; s/"nodes": [^]]*/"nodes": ["n0"/; s/\[\([0-9.]*\), [^]]*\]/[\1]/g' \
    "$data/killed.jsonl" >"$tmp/alone.jsonl"
report "$tmp/alone.jsonl"
like "one rank has no communication to hide" "$rc:$err:$out" '^0::.*  ran on +1 rank, 1 node, cpu'
unlike "... nor is any told" "$out" "hidden communication"
LC_ALL=C report "$data/killed.jsonl"
is "plain bars where no others can be shown" "$(LC_ALL=C grep -c '[^ -~]' <<<"$out")" 0
like "... of the same length" "$out" "  forward +131 ms +27\.3 %  #{11}"$'\n'
report "$data/straggler.jsonl"
like "a straggler" "$out" "  slowest rank +3 \(n1\), 1\.29 x median"
like "... that was named" "$out" " 750  slow +rank 3 \(n1\) computes 1.45 times as long as the median rank"
is "... once" "$(grep -c ' slow  ' <<<"$out")" 1
report "$data/cut.jsonl"
like "a run that goes on" "$rc:$out" "^0:train, job 1402.0: running.*1 line had been cut$"

# A checkpoint is on disk steps after the one whose state it has.
sed '$d' "$data/cut.jsonl" >"$tmp/saved"
echo '{"event": "checkpoint", "t": 1795421193, "step": 780, "path": "step-00000780"}' >>"$tmp/saved"
report "$tmp/saved"
like "how far the run is" "$rc:$out" "^0:.*  steps +800 of 2000.* 780  checkpoint "

# Two steps of one allocation, one after the other: two runs, or one where the second went on from a checkpoint.
sed -E 's/"1234.0"/"1234.1"/; s/("(t|began_t)": 17954)2/\13/g' "$data/steady.jsonl" >"$tmp/second"
cat "$data/steady.jsonl" "$tmp/second" >"$tmp/steps"
report "$data/steady.jsonl"
like "a record of one run" "$rc:$out" "^0:train, job 1234\.0: done;"
unlike "... knows of no earlier ones" "$out" "earlier runs"
took=$(sed -n 's/^  took *//p' <<<"$out")
report "$tmp/steps"
like "one of two steps of an allocation: the second" "$rc:$out" \
    "^0:train, job 1234\.1: done;.*  earlier runs +1 in the same record, not shown.*  interruptions +0 restarts, 0 r"
is "... whose time is its own" "$(sed -n 's/^  took *//p' <<<"$out")" "$took"
report "$tmp/steps" "$tmp/second"
like "... also beside another run" "$rc:$out" "^0:.*"$'\n'"earlier runs +1 in the same record, not shown +-"$'\n'
sed '/"train"/s/"step": 0/"step": 1900/' "$tmp/second" | cat "$data/steady.jsonl" - >"$tmp/steps"
report "$tmp/steps"
like "... or both, where the second went on from a checkpoint" "$rc:$out" \
    "^0:train, job 1234\.1: done;.*  interruptions +1 restart, 0 requeues"
is "... which are no requeue among the events either" \
    "$(sed -n 's/^  [0-9:]\+ *[0-9]\+  \(\(re\)\?start  .*\)/\1/p' <<<"$out" | tr -s ' ' | paste -sd,)" \
    "start 8 ranks on 4 nodes,restart 8 ranks on 4 nodes"
unlike "... and no time in the queue" "$out" "in the queue|earlier"
sed 's/"1234.1"/"1235.0"/' "$tmp/steps" >"$tmp/jobs"
report "$tmp/jobs"
like "another job is another run all the same" "$rc:$out" \
    "^0:train, job 1235\.0: done;.*  earlier runs +1 .*  interruptions +0 restarts, 0 requeues"

# Barriers of 1 to 40 us, in some order; the first interval had none.
unlike "nothing of barriers where a record has none" "$out" barrier
awk '/"interval"/ { sub(/}$/, ", \"barrier_s\": " (n ? n * 37 % 40 + 1 "e-6" : "null") "}"); n++ } { print }' \
    "$data/steady.jsonl" >"$tmp/barriers"
report "$tmp/barriers"
like "what a barrier takes" "$rc:$out" "^0:.*  barrier +20\.5 us, 99 % at most 39\.6 us"

# ---- several ----
report "$data"/{steady,straggler,killed}.jsonl
like "runs side by side" "$rc:$out" "^0: +steady +straggler +killed"$'\n'
like "... with their facts" "$out" "throughput +68.5 k tokens/s +55.4 k tokens/s +68.5 k tokens/s"
like "... where one has none" "$out" "lost to a failure +- +- +18.3 % 4 min 40 s"$'\n'
is "... in 100 columns" "$(grep -cE '.{101}' <<<"$out")" 0
is "... without spaces at the ends" "$(grep -c ' $' <<<"$out")" 0

# ---- what is refused ----
for wrong in "" "--html" "--htm x $data/cut.jsonl" "a b c d e f g h i"; do
    # shellcheck disable=SC2086
    report $wrong
    like "wrong usage: report $wrong" "$rc:$err" "^2:ddp report: .*(help\"|lists them|wants a value)"
done
report "$tmp/nowhere"
like "a file that is not there" "$rc:$err" "^1:ddp report: .*/nowhere: No such file"
report "$tmp"
like "a folder" "$rc:$err" "^1:ddp report: .*Is a directory"
report "$data/steady.jsonl" "$top_srcdir/NEWS.md"
like "what is no record" "$rc:$err:$out" "^1:ddp report: .*/NEWS.md:1: not JSON at byte [0-9]+: [^:]*:$"
sed '3s/"wall_s"/"wall"/' "$data/steady.jsonl" >"$tmp/wrong"
report "$tmp/wrong"
like "a wrong line" "$rc:$err" "^1:ddp report: .*/wrong:3: a line \"interval\" lacks wall_s: see ddp-record\(5\)$"
sed 's/"v": 1/"v": 2/' "$data/steady.jsonl" >"$tmp/wrong"
report "$tmp/wrong"
like "a later version" "$rc:$err" "^1:ddp report: .*/wrong:1: a record of version 2, and this software reads 1"

# ---- a long one, and what would steer a terminal ----
awk '/"interval"/ && !/"steps": 1,/ { rest[n++] = substr($0, index($0, ", \"steps\"")) }
    /"start"|"train"/ { print }
    END { for (i = 1; i <= 100000; i++)
        print "{\"event\": \"interval\", \"t\": " 1795420804 + 25 * i ", \"step\": " 50 * i rest[i % n] }
    ' "$data/steady.jsonl" >"$tmp/long"
took=$({ TIMEFORMAT=%U && time report "$tmp/long"; } 2>&1 && echo "$rc:$out" >"$tmp/said")
like "100000 lines of 8 ranks" "$(<"$tmp/said")" "^0:.*  steps +5000000 of 2000"
like "... in less than 4 s of a processor" "$took" "^[0-3]\.[0-9]+$" # 1.3 s where this was written
sed 's/"1234.0"/"\\u001b[31m\\u202e<b>"/; s/"n1"/"n\\u0007\\n"/' "$data/steady.jsonl" >"$tmp/hostile"
report "$tmp/hostile"
is "nothing steers the terminal" "$rc:$(tr -d '\n -~█▉▊▋▌▍▎▏' <<<"$out")" "0:"
like "... and it is shown" "$out" "^train, job \?\[31m\?<b>: done; on n0 n\?  n2"
done_testing
