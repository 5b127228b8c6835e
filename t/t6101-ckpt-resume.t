#!/bin/bash
# A job that goes on from a checkpoint ends with the bits of one that was never stopped: on 1, 2 and 4 ranks, on nodes,
# with and without spread optimizer state; with shards also on another number of ranks, and then the files are the same
# bytes, too.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/t/lib/ckptprobe.sh"
sums() { (cd "$1" && find . -type f ! -name manifest.json | sort | xargs sha256sum); }

# --- the same number of ranks ---
for case in "1" "2" "2 --ddp-zero=0" "2 --ddp-zero=1" "1,1" "1,1 --ddp-zero=1" "4" "3 sgd=on" "2,2 --ddp-zero=1" \
    "2 --ddp-order=distributed"; do
    layout=${case%% *} more=()
    [ "$case" = "$layout" ] || more=("${case#* }")
    dir=$tmp/${case//[^0-9a-z]/_}
    ranks "$layout" none "${more[@]}" resume=none
    is "$case: trains" "$rc" 0 || diag "$out$err"
    want=$(bits)
    ranks "$layout" "$dir" "${more[@]}" steps=7 --ddp-ckpt-every=3 wait=on
    is "$case: with checkpoints, the same bits" "$rc $(bits | grep step)" "0 $(head -7 <<<"$want")" || diag "$err"
    like "$case: ... two" "$out" 'status 2 0 6'
    ranks "$layout" "$dir" "${more[@]}"
    like "$case: goes on" "$out" 'resumed 6'
    is "$case: ... with the same bits" "$rc $(bits)" "0 $(tail -n +7 <<<"$want")" || diag "$err"
    is "$case: ... with no warning" "$(grep -c warning <<<"$out")" 0 || diag "$out"
done

# --- another one ---
ranks 1 none resume=none shards=8
want=$(bits)
first=
for layout in 1 2 1,1 4 2,2 1,1,1,1; do
    for zero in 0 1; do
        dir=$tmp/shards-$layout-$zero
        ranks $layout "$dir" shards=8 steps=7 --ddp-ckpt-every=3 --ddp-ckpt-file-mb=1 --ddp-zero=$zero wait=on
        is "shards on $layout, zero=$zero: checkpoints" "$rc $(grep status <<<"$out")" "0 status 2 0 6" || diag "$err"
        files=$(sums "$dir")
        : "${first:=$files}"
        ok "... are the same bytes on any number of ranks" [ "$files" = "$first" ]
        other=$([ $layout = 2 ] && echo 4 || echo 2)
        ranks $other "$dir" shards=8 --ddp-zero=$((1 - zero))
        is "... and $other ranks go on with the same bits" "$rc $(bits)" "0 $(tail -n +7 <<<"$want")" || diag "$err"
    done
done
ok "files of 1 MiB: more than one" [ "$(grep -c 'step-00000006/.*safetensors$' <<<"$first")" -ge 5 ]
ranks 2 "$tmp/other"
ranks 2 "$tmp/plain" steps=7 --ddp-ckpt-every=3 wait=on
ranks 4 "$tmp/plain"
is "without shards other ranks go on, too" "$rc" 0 || diag "$err"
like "... from there" "$out" 'resumed 6'
like "... and say that bits may differ" "$out" 'warning resumed with ranks "4", not "2": bits may differ'
ranks 2 "$tmp/plain" steps=8 --ddp-compress=bf16
like "... and so does another type of gradients on their way" "$out" \
    'warning resumed with optimizer "compress=bf16", not "compress=none": bits may differ'

# --- as many ranks, otherwise on the nodes: said where sums then have another order ---
lies() { # FROM TO WANT ARGUMENT...: a run on FROM goes on on TO; WANT: the warning, or "" where bits stay
    local dir=$tmp/lies desc="from $1 to $2${4:+ $4}" end
    ranks "$2" none "${@:4}" resume=none
    end=$(bits | tail -n +7)
    ranks "$1" "$dir" "${@:4}" steps=7 --ddp-ckpt-every=3 wait=on
    is "$desc: trains" "$rc $(grep status <<<"$out")" "0 status 2 0 6" || diag "$err"
    ranks "$2" "$dir" "${@:4}"
    is "$desc: goes on" "$rc $(grep -x "resumed [0-9]*" <<<"$out")" "0 resumed 6" || diag "$err"
    if [ "$3" ]; then
        like "... and says that bits may differ" "$out" \
            "warning resumed with $3: bits may differ from .*; ranks lie otherwise on the nodes: --ntasks-per-node=N "
        ok "... as they do" [ "$(bits)" != "$end" ]
    else
        is "... with the same bits" "$(bits)" "$end"
        is "... and no warning" "$(grep -c warning <<<"$out")" 0 || diag "$out"
    fi
    rm -r "$dir"
}
lies 3,1 2,2 'sums over "ranks", not "nodes 3,1"'
lies 2,2 1,2,1 'sums over "nodes 1,2,1", not "ranks"'
lies 3,1 1,3 'sums over "nodes 1,3", not "nodes 3,1"'
lies 3,1 3,1 ""
lies 2,2 1,1,1,1 ""
lies 2,2 4 ""
lies 3 2,1 ""
lies 4 2,2 'sums over "nodes 2,2", not "ranks"' --ddp-compress=bf16
lies 4 1,1,1,1 "" --ddp-compress=bf16
ranks 2,2 "$tmp/type" steps=7 --ddp-ckpt-every=3 wait=on
ranks 2,2 "$tmp/type" --ddp-compress=bf16
is "another type, the same nodes: that alone" "$rc $(grep -c 'with optimizer' <<<"$out") $(grep -c nodes <<<"$out")" \
    "0 1 0" || diag "$out"

# --- one folder, however it is called ---
ranks 2 "$tmp/./names//dots/" steps=7 --ddp-ckpt-every=3 wait=on
is "a folder with a slash at the end" "$rc $(grep status <<<"$out")" "0 status 2 0 6" || diag "$err"
ranks 2 "$tmp/./names//dots/" steps=9 --ddp-ckpt-every=3 wait=on
is "... can be gone on with" "$rc $(grep -E 'resumed|status' <<<"$out")" $'0 resumed 6\nstatus 1 0 9' || diag "$err"
ranks 2 "$tmp/names/dots" resume="$tmp/names/./dots/step-00000009/" steps=12 --ddp-ckpt-every=3 wait=on
is "... and is the same by another name" "$rc $(grep -E 'resumed|status' <<<"$out")" $'0 resumed 9\nstatus 1 0 12' ||
    diag "$err"

# --- a stop: a checkpoint, and exit code 75 ---
for layout in 1 2 1,1; do
    ranks 1 none resume=none
    [ $layout = 1 ] || ranks $layout none resume=none
    want=$(bits)
    ranks $layout "$tmp/stop-$layout" stop=5 --ddp-ckpt-every=4
    is "$layout: stops with a checkpoint" "$rc $(grep status <<<"$out")" "75 status 2 0 5" || diag "$out$err"
    ranks $layout "$tmp/stop-$layout"
    is "$layout: goes on from it" "$rc $(bits)" "0 $(tail -n +6 <<<"$want")" || diag "$err"
done

# --- killed: what was committed counts, what was not goes ---
ranks 2 "$tmp/killed" kill=9 --ddp-ckpt-every=4 wait=on
ok "killed: exit code" [ "$rc" != 0 ]
mkdir -p "$tmp/killed/.saving-0123456789abcdef-step-00000012" "$tmp/killed/step-00000010"
ranks 2 "$tmp/killed" --ddp-ckpt-every=4 wait=on
like "killed: goes on" "$out" 'resumed 8'
is "... and the leavings are gone" "$(ls -A "$tmp/killed")" $'step-00000008\nstep-00000012'
done_testing
