#!/bin/bash
# ddp bench: columns, JSON, checks of results, refusals; on two ranks, at small sizes.
# shellcheck disable=SC2154
. "$(dirname "$0")/lib/tap.sh"
unset RANK WORLD_SIZE "${!SLURM@}" "${!DDP_@}" "${!PROBE_@}"
export OMP_NUM_THREADS=1
ddp=$top_builddir/ddp
probe=$top_builddir/t/lib/bench-probe

bench() { run "$ddp" run -n 2 "$ddp" bench "$@"; }
# json EXPRESSION: of the document d in $out.
json() { python3 -c 'import json, math, sys; d = json.load(sys.stdin); print('"$1"')' <<<"$out" 2>&1; }

# --- allreduce ---
bench allreduce -b 8 -e 64K -f 8 -n 3 -w 1
is "allreduce: exit code" "$rc" 0 || diag "$err"
is "a row for each size, rank 0 alone prints" "$(grep -c '^ ' <<<"$out")" 5
is "size, count, type, redop" "$(awk '/^ / { print $1, $2, $3, $4 }' <<<"$out" | tail -n 1)" "32768 8192 float sum"
is "two sides: times, bandwidths, no wrong element" \
    "$(awk '/^ / && NF == 14 && $5 > 0 && $7 >= 0 && $8 == 0 && $10 > 0 && $13 == 0' <<<"$out" | wc -l)" 5
like "busbw is algbw 2 (n - 1) / n: the same for 2 ranks" "$(awk '/^ / { print $6 - $7 }' <<<"$out" | sort -u)" '^0$'
like "the verdict" "$out" "wrong elements: 0 OK"

bench allreduce --sizes 4K,8K --memory -n 3 -w 1 --json
is "JSON: sizes" "$(json '[r["size"] for r in d["rows"]]')" "[4096, 8192]"
is "JSON: numbers that belong together" "$(json 'all(
    0 < r[s]["time_us"]["min"] <= r[s]["time_us"]["q1"] <= r[s]["time_us"]["median"] <= r[s]["time_us"]["q3"]
    <= r[s]["time_us"]["max"] and r[s]["wrong"] == 0
    and abs(r[s]["algbw"] * r[s]["time_us"]["median"] * 1e3 / r["size"] - 1) < 1e-6
    and abs(2 * r["memory_us"]["median"] / (3 * r["direct"]["time_us"]["median"]) / r["of_memory"] - 1) < 1e-6
    for r in d["rows"] for s in ("staged", "direct"))')" True

for type in double bfloat16 half int32 int64; do
    for op in sum min max; do
        run "$ddp" run -n 3 "$ddp" bench allreduce -b 20000 -e 20000 -n 1 -w 0 -d $type -o $op --json
        is "$type $op: 3 ranks, exact" "$rc $(json 'd["wrong"]')" "0 0"
    done
done
run "$ddp" run -n 4 --layout 2,2 "$ddp" bench allreduce -b 1M -e 1M -n 1 -w 0 --json
is "2 + 2 virtual nodes, exact" "$rc $(json 'd["nodes"], d["wrong"]')" "0 2 0"

export PROBE_FAULT=element
run "$ddp" run -n 2 "$probe" bench allreduce -b 64K -e 64K -n 1 -w 0
is "a planted wrong element: exit code" "$rc" 1
like "... is counted on both sides" "$out" "wrong elements: 2 FAILED"
run "$ddp" run -n 2 "$probe" bench allreduce -b 64K -e 64K -n 1 -w 0 -c=0
is "... unless results are not checked" "$rc" 0
like "... which is said" "$out" "N/A.*not checked"
unset PROBE_FAULT

# --- step ---
tiny=(--layers 2 --width 32 --heads 2 --context 16 --batch 2)
bench step "${tiny[@]}" --steps 4 --warmup 2 --dump "$tmp/weights"
is "step: exit code" "$rc" 0 || diag "$err"
is "a step's time and that of its products" "$(awk '/^(step|its) / { print ($(NF - 3) > 0) }' <<<"$out" | xargs)" "1 1"
like "the first losses" "$out" "loss [0-9.]+ at step 0, [0-9.]+ at step 5"
bench step "${tiny[@]}" --steps 6 --warmup 0 --accum 3 --load "$tmp/weights" --json
is "JSON: a number for each step" \
    "$(json '[len(d[k]) for k in ("step_s", "quiet_s", "sync_s", "backward_s", "wait_s", "loss")]')" \
    "[6, 6, 6, 6, 6, 6]"
# Each is its slowest rank's: only what holds on every rank holds between them.
is "JSON: times that belong together" "$(json 'all(q < t and s < t and b < s and w < s for t, q, s, b, w in zip(
    d["step_s"], d["quiet_s"], d["sync_s"], d["backward_s"], d["wait_s"]))')" True
ok "training trains" test "$(json 'd["loss_at_5"] < d["loss_at_0"] - 0.01')" = True
weights=$(json 'd["parameters"]')
is "the weights that were dumped" "$(stat -c %s "$tmp/weights")" $((4 * weights))
first=$(json 'd["loss_at_0"]')
bench step "${tiny[@]}" --steps 1 --warmup 0 --accum 3 --load "$tmp/weights" --json
is "the same weights, the same loss" "$(json 'd["loss_at_0"]')" "$first"
truncate -s -4 "$tmp/weights"
bench step "${tiny[@]}" --steps 1 --load "$tmp/weights"
is "weights of another size: exit code" "$rc" 1
like "... says which file and what it wants" "$err" "$tmp/weights does not hold the $weights float32 weights"

mkfifo "$tmp/go.0" "$tmp/go.1"
for r in 0 1; do timeout 60 sh -c 'printf "steps 2\nproducts 1\ncomm 3\n" >"$1"' sh "$tmp/go.$r" & done
bench step "${tiny[@]}" --lockstep "$tmp/go"
wait
is "lockstep: exit code" "$rc" 0 || diag "$err"
out="[$(paste -sd, <<<"$out")]"
is "lockstep: an answer for each command" \
    "$(json 'd[0]["ranks"], len(d[1]["step_s"]), len(d[2]["products_s"]), len(d[3]["comm_s"]), len(d)')" "2 2 1 3 4"
exec 4<>"$tmp/go.0" 5<>"$tmp/go.1" # open for reading too: a rank that ends early keeps no writer waiting
tee "$tmp/go.1" <<<'dance 2' >"$tmp/go.0"
bench step "${tiny[@]}" --lockstep "$tmp/go"
exec 4<&- 5<&-
is "an unknown command: exit code" "$rc" 1
like "... says which there are" "$err" '"dance 2" is no command: there are steps N'

# --- reducer ---
bench reducer --tensors 7 --mb 1 --backward-ms 2 --steps 4 --warmup 2
is "reducer: exit code" "$rc" 0 || diag "$err"
is "its four times" "$(awk '/^(quiet|sync|exposed|comm) / && NF == 5' <<<"$out" | wc -l)" 4
bench reducer --tensors 7 --mb 1 --backward-ms 2 --steps 5 --warmup 2 --json --ddp-bucket-mb=0.25
is "JSON: hidden is 1 - exposed / comm" \
    "$(json 'math.isclose(1 - d["exposed_s"]["median"] / d["comm_s"]["median"], d["hidden"],
                          rel_tol=1e-6, abs_tol=1e-6)')" True
is "the backward pass computes for as long as it was told" "$(json 'd["quiet_s"]["max"] > 0.001')" True
is "buckets of the size that was told" "$(json '3 < d["buckets"] <= 7')" True

# --- ddp run --boot: ranks that enter network namespaces before they meet ---
run "$ddp" run -n 2 --boot "unix:$tmp/boot" "$ddp" bench allreduce -b 4K -e 4K -n 1
is "ranks meet at the path that was named" "$rc" 0 || diag "$err"
ok "... which is gone afterwards" test ! -e "$tmp/boot"
run "$ddp" run -n 2 --boot nowhere true
like "a place that is none is a wrong command line" "$rc:$err" '^2:.*boot address "nowhere" is not unix:'

# --- contrib/bench/peers: what needs no peer ---
peers=$top_srcdir/contrib/bench/peers
run "$peers" colours
is "peers, an unknown part: exit code" "$rc" 2
if [ "$(id -u)" = 0 ]; then
    run "$peers" planner --build "$tmp"
    is "peers, no build: exit code" "$rc" 1
    like "... says the cure" "$err" "$tmp/ddp is not there: run make there, or give --build"
fi

# --- refusals ---
refuses() { # WHAT ERE OPTION...
    local what=$1 ere=$2
    shift 2
    bench "$@"
    is "$what: exit code" "$rc" 2
    like "$what: says the cure" "$err" "$ere"
    is "$what: said once" "$(grep -c "^ddp bench: " <<<"$err")" 1
}
run "$ddp" bench colours
is "an unknown verb: exit code" "$rc" 2
like "... says where they are listed" "$err" "\"colours\" is not one of its verbs: \"ddp bench --help\""
refuses "an unknown option" 'no option --colour: "ddp bench allreduce --help"' allreduce --colour red
refuses "a size without a number" "-b=x is not a size: write bytes, or 64K" allreduce -b x
refuses "a size with an unknown unit" "-e=5T is not a size" allreduce -e 5T
refuses "a size of nothing" "-b=0 is not a size" allreduce -b 0
refuses "an end below the beginning" "-e=1K is below -b=2K" allreduce -b 2K -e 1K
refuses "an unknown type" "-d=int8 is not allowed: use -d=float|double" allreduce -d int8
refuses "a value that is missing" "-n wants a value" allreduce -n
refuses "heads that do not divide the width" "--width=30 cannot be divided among --heads=4" step --width 30
refuses "tensors of nothing" "--mb=0.001 is less than one element for each of --tensors=1000" reducer --mb 0.001 \
    --tensors 1000
refuses "an unknown preset" "--model=huge is not allowed: use --model=tiny|small" step --model huge
like "help lists the options" "$("$ddp" bench allreduce --help)" "-e TEXT +greatest size"
done_testing
