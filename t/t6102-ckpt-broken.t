#!/bin/bash
# Each file of a checkpoint truncated, made longer, with a bit flipped at several places, or removed: always found,
# never loaded, and the checkpoint before is used; with none before, an error, never a new start.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/t/lib/ckptprobe.sh"

flip() { # FILE OFFSET
    python3 - "$@" <<'PY'
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(int(sys.argv[2]))
    byte = f.read(1)[0]
    f.seek(int(sys.argv[2]))
    f.write(bytes([byte ^ 4]))
PY
}

good=$tmp/good
ranks 2 "$good" shards=4 small=on steps=7 --ddp-ckpt-every=3 --ddp-ckpt-file-mb=0.5 wait=on
is "two checkpoints" "$rc $(ls "$good")" $'0 step-00000003\nstep-00000006' || diag "$err"
ranks 2 "$tmp/none" shards=4 small=on steps=9 resume=none
want=$(bits)

n_broken=0
broken() { # DESC FILE
    local n=$((n_broken++ % 3 ? 1 : 2))
    ranks $n "$tmp/bad" shards=4 small=on steps=9
    is "$1: the one before is used" "$rc $(grep ^resumed <<<"$out")" "0 resumed 3" || diag "$out$err"
    is "$1: ... with the same bits" "$(bits)" "$(tail -n +4 <<<"$want")"
    like "$1: ... and said, with the file" "$out" "warning .*step-00000006(/|: )$2.*resumed from step 3"
}
copy() {
    rm -rf "$tmp/bad"
    cp -r "$good" "$tmp/bad"
}
for file in $(ls "$good/step-00000006"); do
    bad=$tmp/bad/step-00000006/$file
    copy && size=$(stat -c %s "$bad")
    truncate -s $((size - 1)) "$bad" && broken "$file, one byte short" "$file"
    copy && truncate -s 0 "$bad" && broken "$file, empty" "$file"
    copy && truncate -s $((size + 1)) "$bad" && broken "$file, one byte long" "$file"
    for at in 0 9 $((size / 3)) $((size - 2)); do
        copy && flip "$bad" "$at" && broken "$file, a bit of byte $at" "$file"
    done
    [ "$file" = manifest.json ] && continue
    copy && rm "$bad" && broken "$file, gone" "$file"
done
copy && rm "$tmp/bad/step-00000006/manifest.json"
ranks 2 "$tmp/bad" shards=4 small=on steps=9
is "without a manifest there is no checkpoint" "$rc $(grep -E '^(resumed|warning)' <<<"$out")" "0 resumed 3"

copy && cp -r "$tmp/bad/step-00000006" "$tmp/bad/step-00000009"
ranks 2 "$tmp/bad" shards=4 small=on steps=9
is "one under another step's name: the one before is used" "$rc $(grep ^resumed <<<"$out")" "0 resumed 6" || diag "$err"
like "... and said" "$out" 'warning .*step-00000009/manifest.json is that of step 6.*resumed from step 6'

copy && truncate -s 0 "$tmp/bad/step-00000006/model-00001-of-00001.safetensors"
ranks 2 "$tmp/bad" shards=8 small=on steps=4
like "where something else may change bits, both are said" "$out" \
    'warning resumed with shards "8", not "4": .*; .*step-00000006(/|: )model-.*resumed from step 3'
is "... of the one that was taken alone" "$(grep -o 'resumed with' <<<"$out" | wc -l)" 1

# --- nothing is good ---
copy
for step in 3 6; do flip "$tmp/bad/step-0000000$step/model-00001-of-00001.safetensors" 9000; done
ranks 2 "$tmp/bad" shards=4 small=on
is "both broken: an error" "$rc" 1
like "... that names the newest's file" "$err" \
    'none of 2 checkpoints is whole; .*/bad/step-00000006/model-00001-of-00001'
is "... the same on both ranks" "$(sed -n 's/^rank .: //p' <<<"$err" | sort -u | wc -l)" 1 || diag "$err"

# --- and the next commit removes what is broken ---
copy && flip "$tmp/bad/step-00000006/manifest.json" 100
ranks 2 "$tmp/bad" shards=4 small=on steps=5 --ddp-ckpt-every=5 wait=on
is "a commit before the broken one's step" "$rc $(ls "$tmp/bad")" $'0 step-00000003\nstep-00000005' || diag "$err"
copy && flip "$tmp/bad/step-00000006/manifest.json" 100
ranks 2 "$tmp/bad" shards=4 small=on steps=6 --ddp-ckpt-every=6 wait=on
ranks 2 "$tmp/bad" shards=4 small=on steps=9
is "a commit of the broken one's step" "$rc $(grep ^resumed <<<"$out")" "0 resumed 6"
done_testing
