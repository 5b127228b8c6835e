#!/bin/bash
# Checkpoints of training across devices, as a user meets it: from GPU to processor and back, on one rank.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/t/lib/gputrain.sh"
steady=(--lr 1e-3 --min-lr 1e-3) # the same, however many steps there are to be

# goes_on DESC FROM TO: trained to step 3 on one, the values are the same bits on the other, which trains to step 6.
goes_on() {
    local desc=$1 from=$2 to=$3 ckpt=$tmp/ckpt.$2 before
    local -A program=([cpu]=$cpu [cuda]=$gpu)
    local rest=(--dtype f32 --ckpt "$ckpt" --print-hash "${steady[@]}")
    trains "$desc: saved" "$tmp/log" "${program[$from]}" "${small[@]}" --device "$from" --steps 3 "${rest[@]}"
    before=$(hash)
    trains "... read" "$tmp/log" "${program[$to]}" "${small[@]}" --device "$to" --steps 3 "${rest[@]}"
    is "... the same bits" "$(hash)" "$before"
    trains "... went on" "$tmp/log" "${program[$to]}" "${small[@]}" --device "$to" --steps 6 "${rest[@]}"
    near "... with the losses of the processor alone" "$tmp/log" "$tmp/whole" 1e-4
}
trains "the processor alone" "$tmp/whole" "$cpu" "${small[@]}" --device cpu --steps 6 "${steady[@]}"
goes_on "from GPU to processor" cuda cpu
goes_on "from processor to GPU" cpu cuda
done_testing
