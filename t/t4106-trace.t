#!/bin/bash
# The trace of a training run: the first bucket sets out before the last gradient is ready, in every step that overlaps.
. "$(dirname "$0")/lib/tap.sh"
text=/usr/share/common-licenses/GPL-3
cd "$tmp" || exit 1

train() { run "$top_builddir/ddp" run -n 2 "$top_builddir/train" --data $text --model tiny --steps 6 "$@"; }
train --ddp-bucket-mb=0.25 --ddp-trace=trace-%r.json
is "a run with a trace" "$rc" 0
for r in 0 1; do
    ok "rank $r: every bucket of a step ends before its tail; the first sets out before the last gradient is ready" \
        python3 "$top_srcdir/t/lib/tracecheck" "trace-$r.json" 6 overlap
done
train --ddp-trace=planned-%r.json
ok "planned: passes 2 to 4 measure after the backward pass" \
    python3 "$top_srcdir/t/lib/tracecheck" planned-0.json 6 planned
ok "the checker notices a trace without overlap" \
    sh -c "! python3 '$top_srcdir/t/lib/tracecheck' planned-0.json 6 overlap"
train --ddp-trace=one.json
is "one file for two ranks: exit code" "$rc" 2
like "... names the cure" "$err" "put %r"
DDP_TRACE=/nowhere/x-%r.json train
like "a file that cannot be written is named" "$err" "rank 0: trace /nowhere/x-0.json: No such file"
mkfifo pipe-0.json pipe-1.json
run_deadline=20 train --ddp-trace=pipe-%r.json
like "a pipe that nobody reads is refused, with the cure" "$rc $err" \
    "^2 .*trace pipe-[01].json: it is a pipe.*name a file"
mkdir full
for r in 0 1; do ln -s /dev/full full/$r.json; done
train --ddp-trace=full/%r.json
is "a full disk: exit code" "$rc" 1
like "... is named, with the cure" "$err" \
    "trace full/[01].json cannot be written: No space left on device: name another file"
ln -sf /dev/null full/0.json
run "$top_builddir/ddp" run -n 2 "$top_builddir/t/lib/flipprobe" 100 10 1 --ddp-trace=full/%r.json
like "... of one rank alone: the other is told" "$rc $out" \
    "^1 .*: rank 1 [^:]*aborted: trace full/1.json cannot be written: No space left on device"
done_testing
