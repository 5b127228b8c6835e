#!/bin/bash
# A bit that flips in one rank's parameters is found, by all ranks and in time; nothing is found where none flips.
. "$(dirname "$0")/lib/tap.sh"
probe=$top_builddir/t/lib/flipprobe
export DDP_TIMEOUT=40 # before `run` ends it: so ranks say who is waited for
elems=200000 turns=13 # 800000 bytes, of which a step sees 65536
accum=1

flips() { # N LAYOUT [OPTION...]: a bit flips before step 20
    run "$top_builddir/ddp" run -n "$1" --layout "$2" "$probe" 60 $elems $accum "$rank" 20 "$bit" "${@:3}"
}
n_found=0
for i in {1..20}; do
    rank=$((RANDOM % 3)) bit=$(((RANDOM << 15 | RANDOM) % (32 * elems)))
    flips 3 2,1
    step=${out%%:*}
    n=$(grep -cE "^$step: the parameters of rank $rank .* those of the other 2 ranks" <<<"$out")
    if [ "$rc $n" = "1 3" ] && [ "$step" -ge 20 ] && [ "$step" -lt $((20 + turns)) ]; then n_found=$((n_found + 1))
    else diag "$bit: $out"; fi
done
is "a flipped bit of one of three ranks" "$n_found found" "20 found"
rank=1 bit=12345
flips 2 1,1
is "of two, both are named" \
    "$rc $(grep -cE '^2[0-9]*: the parameters of rank 1 .* are not those of rank 0 .*, as after step' <<<"$out")" "1 2"
bit=nan
flips 3 2,1
like "steps that are skipped count, too" "$rc $out" "^1 [23][0-9]: the parameters of rank 1 "
bit=12345
flips 3 2,1 --ddp-verify=0
is "verify=0: nothing is looked at" "$rc $out" "0 "
flips 3 3 --ddp-zero=1
is "with the state spread over the ranks it is off" "$rc $out" "0 "
flips 3 3 --ddp-zero=1 --ddp-verify=1
like "... but looks at all where it is asked to" "$rc $out" "^1 20: the parameters of rank 1 "

# A turn is a step, however many micro-steps it has: each part has its own, and a rank that joins keeps pace.
accum=$turns rank=1 bit=12345
flips 2 1,1
like "with as many micro-steps as parts the first part is looked at" "$rc $out" "^1 [23][0-9]: .* rank 1 .* rank 0 "
bit=join
flips 3 2,1
is "... and a rank that joins has the others' parameters" "$rc $out" "0 "
accum=1

# Checkpoints that the job wrote while parameters differed are not resumed from.
rank=2 bit=$((32 * elems - 1)) # of the last part
run "$top_builddir/ddp" run -n 3 --layout 2,1 "$probe" 60 $elems $accum $rank 14 "$bit" "$tmp/ckpt" --ddp-keep=4
like "checkpoints of that time" "$rc $out" "^1 25: .* as after step 12: .*later checkpoints: suspect-step-"
is "... are set aside" "$(find "$tmp/ckpt" -maxdepth 1 -name 's*-0*' -printf '%f\n' | sort | xargs)" \
    "step-00000010 suspect-step-00000015 suspect-step-00000020 suspect-step-00000025"

# No step follows the last checkpoint, by which a bit that flipped in the last ones would be found.
saved() { find "$1" -maxdepth 1 -name 's*-0*' -printf '%f\n' | sort | xargs; }
bit=12345 # of the part that steps look at in the 27th and the 40th of them
run "$top_builddir/ddp" run -n 3 --layout 2,1 "$probe" 60 $elems $accum $rank 31 "$bit" "$tmp/stop" stop --ddp-keep=4
like "a bit that flips just before a stop" "$rc $out" \
    "^1 3[2-4]: the parameters of rank 2 .* as after step (19|2[01]): "
like "... is not what is gone on from" "$(saved "$tmp/stop")" "^step-00000015 .*suspect-step-00000030$"
run "$top_builddir/ddp" run -n 3 --layout 2,1 "$probe" 62 $elems $accum $rank 61 "$bit" "$tmp/end"
like "... or just before the end" "$rc $out" "^1 62: the parameters of rank 2 .* as after step 49: "
unlike "... is not there either" "$(saved "$tmp/end")" "(^| )step-00000062"

run "$top_builddir/ddp" run -n 4 --layout 2,2 "$probe" 3000 100 $accum
is "3000 clean steps" "$rc $out" "0 "
done_testing
