#!/bin/bash
# A stop inside a step of many micro-steps: what was added up so far is saved, the resumed step goes on from there, and
# every bit is that of a run that was not stopped.
. "$(dirname "$0")/lib/tap.sh"
probe=$top_builddir/t/lib/cutprobe
export DDP_STOP_WITHIN=0 # every step is a long one

go() { # RANKS NAME STEPS ACCUM SHARDS [STEP MICRO RANK]
    run "$top_builddir/ddp" run -n "$1" "$probe" "$tmp/$2" "${@:3}"
    echo "$out" >>"$tmp/$2.out"
}
bits() { grep -E '^(step|hash)' "$tmp/$1.out" | sed 's/ micro-steps.*//'; }

# stopped NAME RANKS-1 RANKS-2 ACCUM SHARDS STEP MICRO RANK: stopped there on so many ranks, resumed on so many
stopped() {
    go "$2" "$1" 6 "$4" "$5" "$6" "$7" "$8"
    is "$1: stops in step $6, after $(($7 + 1)) micro-steps" "$rc $(tail -n 1 <<<"$out")" \
        "75 cut in step $6 after $(($7 + 1)) micro-steps by signal 15"
    go "$3" "$1" 6 "$4" "$5"
    is "$1: goes on" "$rc" 0 || diag "$err"
    is "$1: to the same bits" "$(bits "$1")" "$want"
}
micros() { sed -n "s/^step $2 .* micro-steps //p" "$tmp/$1.out"; } # NAME STEP

for ranks in 1 2 3; do
    go $ranks "ref$ranks" 6 4 0
    want=$(bits ref$ranks)
    like "$ranks ranks: nobody stops them" "$rc $(wc -l <<<"$want") $want" "^0 7 step 1 .*hash"
    stopped "a$ranks" $ranks $ranks 4 0 3 1 $((ranks - 1))
    is "... without doing again what was done" "$(micros a$ranks 3)" 2
    stopped "b$ranks" $ranks $ranks 4 0 1 0 0
    is "... also in the first step" "$(micros b$ranks 1)" 3
done
go 2 twice 6 4 0 2 0 0
go 2 twice 6 4 0 3 2 1
go 2 twice 6 4 0
is "stopped twice" "$(bits twice)" "$(bits ref2)"

go 2 same 6 4 0 3 0 0
go 2 same 6 4 0 3 1 1
is "stopped again before a whole step" "$rc $out" "75 cut in step 3 after 2 micro-steps by signal 15"
go 2 same 6 4 0
is "stopped twice in one step" "$(bits same)" "$(bits ref2)"
is "... without doing again what was done" "$(micros same 3)" 1
is "... and leaving nothing" "$(find "$tmp/same" -name '.*' | wc -l)" 0

go 2 on 6 4 0 3 1 0 on
is "a program that takes no notice goes on to the same bits" "$rc $(bits on)" "0 $(bits ref2)"

go 2 refs 6 1 8
want=$(bits refs)
for micro in 0 1 2; do stopped s$micro 2 2 1 8 4 $micro 1; done
is "shards: without doing again what was done" "$(micros s0 4) $(micros s1 4) $(micros s2 4)" "3 2 1"
stopped fewer 2 1 1 8 4 2 1
is "on other ranks the step begins anew" "$(micros fewer 4)" 8
like "... as is said" "$(cat "$tmp/fewer.out")" "warning: step 4 was begun on 2 ranks: it begins anew"
stopped more 2 4 1 8 4 1 0

go 1 ref1s 6 1 8
want=$(bits ref1s)
go 1 again 6 1 8 4 2 0 again
like "shards: stopped and saved twice by one run" "$rc $out" "^75 .*cut in step 4 after 3 .*cut in step 4 after 1 "
go 1 again 6 1 8
is "... goes on from the second" "$rc $(micros again 4)" "0 4"
is "... to the same bits" "$(bits again)" "$want"

# Sums of gradients that were scaled otherwise, or lie otherwise, are not this job's.
DDP_LOSS_SCALE=1024 go 2 scaled 6 4 0 3 2 0
go 2 scaled 6 4 0 3 0 0
like "another loss scale: the step begins anew" "$rc $out" \
    "^75 .*after 1 micro-steps.*warning: step 3 was begun on 2 ranks, with another loss scale: it begins anew"
go 2 scaled 6 4 0
is "... goes on from what is then saved of it, to the same bits" "$(bits scaled)$(micros scaled 3)" "$(bits ref2)3"
DDP_LOSS_SCALE=1024 go 2 same-scale 6 4 0 3 2 0
DDP_LOSS_SCALE=1024 go 2 same-scale 6 4 0
is "the same scale: the step goes on, to the same bits" "$(bits same-scale)$(micros same-scale 3)" "$(bits ref2)1"
go 2 swap 6 4 0 3 1 0
go 2 swap 6 4 0 99 0 0 swap
like "parameters in another order: the step begins anew, to the same bits" "$(bits swap)$(micros swap 3)$out" \
    "$(bits ref2)4.*warning: step 3 was begun on 2 ranks, with parameters in another order: it begins anew"

# Broken sums of a step are noticed; the step then begins anew.
go 2 broken 6 4 0 3 1 0
f=$(ls "$tmp"/broken/step-*/window-00001*.safetensors)
printf x | dd of="$f" bs=1 seek=$(($(stat -c %s "$f") - 1000)) conv=notrunc 2>"$tmp/dd"
go 2 broken 6 4 0
like "a flipped byte in them: the step begins anew" "$(bits broken)$(micros broken 3)$out" \
    "$(bits ref2)4.*warning: step 3 was begun, and begins anew: .*window-00001"
run "$top_builddir/ddp" ckpt verify "$tmp/a2"
is "ddp ckpt verify" "$rc" 0 || diag "$out$err"

# Ranks that have joined take part in what the others ask each other, and their step is not cut.
export DDP_TIMEOUT=30
go 3 join 6 4 0 99 0 0 join
is "ranks join while others have steps to take" "$rc $(grep -c 'stops 0 cut 0' <<<"$out")" "0 3" || diag "$err"
joined=$(bits join)
DDP_STOP_WITHIN=1000 go 3 join1 6 4 0 99 0 0 join
is "... with the bits that they have where nobody asks" "$(bits join1)" "$joined"
run "$top_builddir/ddp" run -n 3 "$probe" "$tmp/join2" 6 4 0 5 1 0 join
is "a stop then waits for the step's end" "$rc $(grep -c 'stops 1 cut 0' <<<"$out")" "75 3" || diag "$out$err"
is "what a step that is cut says is that of the one before" "$(grep -l 'is not as the one' "$tmp"/*.out)" ""

# A job whose steps are short waits for their end.
export DDP_STOP_WITHIN=1000
go 2 short 6 4 0 3 1 0
is "short steps are not cut" "$rc $(tail -n 1 <<<"$out" | cut -d' ' -f1-2)" "75 step 3"
go 2 first 6 4 0 1 1 0
like "... but the first one, of which nobody knows yet" "$rc $out" "^75 cut in step 1 "
done_testing
