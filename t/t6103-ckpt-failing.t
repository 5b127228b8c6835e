#!/bin/bash
# A checkpoint that cannot be written does not end training, unless it is required; what does not fit is refused.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/t/lib/ckptprobe.sh"
ranks 2 none resume=none
want=$(bits)

# --- cannot be written: goes on, counts, says why; and stops where that is asked for ---
vanishes() {
    rm -rf "$tmp/gone" "$tmp/gone.away"
    PROBE_PAUSE="mv $tmp/gone $tmp/gone.away" ranks 2 "$tmp/gone" --ddp-ckpt-every=3 wait=on pause=4 "$@"
}
vanishes
is "a folder that vanishes: goes on" "$rc $(bits)" "0 $want" || diag "$err"
is "... and counts" "$(grep status <<<"$out")" "status 1 3 3"
like "... and says why" "$out" 'warning the checkpoint of step 12 failed: rank 0: cannot open the folder .*No such file'
vanishes --ddp-ckpt-required=on
is "... required: stops" "$rc" 1
is "... and says why, and each rank which one it was" \
    "$(grep -cE '^rank [01]: rank 0( \(.*\) aborted)?: the checkpoint of step 6 failed: rank 0: can' <<<"$err")" 2 ||
    diag "$err"

if mkdir "$tmp/small" && mount -t tmpfs -o size=6m tmpfs "$tmp/small" 2>/dev/null; then
    at_exit "umount $tmp/small"
    ranks 2 "$tmp/small/ckpt" --ddp-ckpt-every=3 wait=on --ddp-keep=1 # the second one does not fit beside the first
    is "a full disk: goes on" "$rc $(bits)" "0 $want" || diag "$err"
    is "... and counts" "$(grep status <<<"$out")" "status 1 3 3" || diag "$out"
    like "... and says why" "$out" 'warning the checkpoint of step 12 failed: rank [01]: .*No space left on device'
    is "... the good one stays, alone" "$(ls -A "$tmp/small/ckpt")" step-00000003
    ranks 2 "$tmp/small/ckpt" --ddp-ckpt-every=3 wait=on --ddp-keep=1 --ddp-ckpt-required=on
    is "... required: stops" "$rc" 1
    is "... leaving nothing else" "$(ls -A "$tmp/small/ckpt")" step-00000003
    ranks 2 "$tmp/small/ckpt" steps=4
    like "... and can be gone on from" "$out" 'resumed 3'

    rm -r "$tmp/small/ckpt"
    mount -o remount,size=60m,nr_inodes=5 "$tmp/small"
    ranks 2 "$tmp/small/ckpt" --ddp-ckpt-every=3 wait=on # root, ckpt, .writer, .saving-: one file more
    is "no inodes, while there is room: goes on" "$rc $(bits)" "0 $want" || diag "$err"
    like "... and says so" "$out" "warning .* rank [01]: .*, for which there is no inode \\(df -i\\): No space left"
    touch "$tmp/small/1" "$tmp/small/2" "$tmp/small/3"
    for folder in ckpt other; do # is there, or is not
        ranks 2 "$tmp/small/$folder" --ddp-ckpt-every=3 wait=on resume=none
        like "... also of the folder $folder" "$out" "/$folder, for which there is no inode \\(df -i\\): No space left"
    done
else
    diag "a full disk: no tmpfs can be mounted here"
fi

as_nobody() {
    run setpriv --reuid=65534 --regid=65534 --clear-groups "$top_builddir/ddp" run -n 2 "$probe" "$@"
}
if [ "$(id -u)" = 0 ]; then
    mkdir -m 755 "$tmp/locked" && chmod 755 "$tmp"
    as_nobody "$tmp/locked" resume=none --ddp-ckpt-every=6
    is "no permission: goes on" "$rc $(bits)" "0 $want" || diag "$err"
    like "... and says why" "$out" 'warning .*cannot write into the folder .*/locked: Permission denied'
    as_nobody "$tmp/locked" resume=none open=on --ddp-ckpt-every=0
    is "no permission, seen when it is opened: goes on" "$rc $(bits)" "0 $want" || diag "$err"
    like "... and says why" "$out" 'warning .*cannot write into the folder .*/locked: Permission denied'
    as_nobody "$tmp/locked" resume=none open=on --ddp-ckpt-required=on
    is "... required: stops" "$rc $(grep -c ^step <<<"$out")" "1 0"
    mkdir -m 711 "$tmp/home" && mkdir "$tmp/home/nobody" && chown 65534 "$tmp/home/nobody"
    pushd "$tmp/home/nobody" >"$tmp/log" && chmod 700 ..
    as_nobody ck resume=none wait=on --ddp-ckpt-every=6
    popd >"$tmp/log"
    is "in a folder that has one above it without permission: saves" "$rc $(ls "$tmp/home/nobody/ck" | xargs)" \
        "0 step-00000006 step-00000012" || diag "$out$err"
    as_nobody "$tmp/locked"
    is "no permission, seen at the start: an error" "$rc" 1
    like "... that says why" "$err" 'cannot write into the folder .*/locked: Permission denied'
    ranks 2 "$tmp/locked" steps=6 --ddp-ckpt-every=6
    as_nobody "$tmp/elsewhere" resume="$tmp/locked"
    like "... but one can go on from there" "$out" 'resumed 6'
    ranks 2 "$tmp/locked" steps=9 --ddp-ckpt-every=9
    truncate -s 0 "$tmp"/locked/step-00000009/model-*
    as_nobody "$tmp/locked" open=on --ddp-ckpt-every=0
    like "... from the one before where it is broken, and both are said" "$out" \
        'warning .*cannot write into the folder [^;]*/locked: Permission denied; .*step-00000009.*resumed from step 6'
    is "... once" "$(grep -o 'cannot write into' <<<"$out" | wc -l)" 1
    ranks 2 "$tmp/unread" steps=7 --ddp-ckpt-every=3 wait=on
    chmod 0 "$tmp"/unread/step-00000006/model-*
    as_nobody "$tmp/elsewhere" resume="$tmp/unread"
    is "the newest cannot be read just now: no older one instead" "$rc" 1
    like "... and said" "$err" 'step-00000006/model-.*: Permission denied'
fi

# --- a rank without memory where ranks compare something: it tells the others, which wait for it ---
for bytes in 2 16; do # of two ranks: whether each has an error; what they have, as a hash
    ranks 2 none resume=none memory=$bytes
    is "no memory for $bytes bytes: stops" "$rc $(grep -c ^step <<<"$out")" "1 0"
    like "... the rank has told it" "$err" 'rank 1: rank 1: no memory for what all ranks have to say'
    like "... the other has heard it" "$err" 'rank 0: rank 1 .*no memory for what all ranks have to say'
done

# --- or where it keeps a path: the others go on without it, into a call that it does not make ---
long=$tmp/$(printf %0100d 0)
ranks 2 "$long" resume=none open=on memory=$((${#long} + 1))
is "no memory for a path: stops" "$rc $(grep -c ^step <<<"$out")" "1 0"
like "... the rank has told it" "$err" 'rank 1: rank 1: no memory for a path'
like "... the other has heard it" "$err" 'rank 0: rank 1 .*aborted: no memory for a path'
ranks 1 "$long" steps=4 --ddp-ckpt-every=3 wait=on
is "a checkpoint to go on from" "$rc $(ls "$long")" "0 step-00000003" || diag "$err"
ranks 1 "$long" memory=$((${#long} + 1))
is "no memory for its path: stops" "$rc $(grep -c ^step <<<"$out")" "1 0"
like "... not as another training's" "$err" 'rank 0: rank 0: no memory for a path'

# --- the last one, before a stop, is tried again ---
last() { # HOW [TIMES]: rank 1 cannot write it
    LD_PRELOAD=$top_builddir/t/lib/.libs/fault.so FAULT_DIR=$tmp/last-$1-${2-1} FAULT_RANK=1 FAULT_FROM=.saving- \
        FAULT_AT=3 FAULT_DO=$1 FAULT_TIMES=${2-1} ranks 1,1 "$tmp/last-$1-${2-1}" stop=5
}
last EIO
is "a hiccup of the file system: stops with a checkpoint" "$rc $(grep status <<<"$out") $(ls "$tmp/last-EIO-1")" \
    "75 status 1 0 5 step-00000005" || diag "$out$err"
like "... says so" "$out" 'warning the checkpoint of step 5 failed, and is tried again: rank 1: [^;]*output error'
last EIO 0
like "one that stays: says so in the end" "$out" '; the checkpoint of step 5 failed: rank 1: [^;]*output error'
last ENOSPC 0
is "a full disk: tried once" "$(grep status <<<"$out") $(grep -c 'tried again' <<<"$out") $(ls "$tmp/last-ENOSPC-0")" \
    "status 0 1 -1 0 " || diag "$out$err"

# --- what does not fit ---
ranks 2 "$tmp/c" steps=6 --ddp-ckpt-every=3 wait=on
refused() { # DESC WHY ARGUMENT...
    ranks 2 "${@:3}"
    is "$1: refused" "$rc" 1
    like "$1: ... and said" "$err" "$2"
    is "$1: ... by both ranks alike" "$(sed -n 's/^rank .: //p' <<<"$err" | sort -u | wc -l)" 1 || diag "$err"
}
refused "not resumed from" 'has checkpoints already: resume from them' "$tmp/c" resume=none --ddp-ckpt-every=3
refused "opened, not resumed from" 'has checkpoints already: resume from them' "$tmp/c" resume=none open=on
is "... before the first step" "$(grep -c ^step <<<"$out")" 0
refused "another shape" 'has big as F32 \[300,1100\], not F32 \[100,1100\]' "$tmp/c" small=on
refused "another parameter" 'has no tensor extra: ' "$tmp/c" extra=on
refused "no moments" 'has a tensor big.exp_avg that is not in this model' "$tmp/c" sgd=on
refused "other data" 'was trained on 1000 samples, and there are 999' "$tmp/c" samples=999
refused "an older one by name" 'has a newer checkpoint, of step 6' "$tmp/c" resume="$tmp/c/step-00000003"
refused "one that is not there" 'has no checkpoint of step 5' "$tmp/c" resume="$tmp/c/step-00000005"
ranks 2 "$tmp/c" resume="$tmp/c/step-00000006/"
is "the newest by name" "$rc $(grep ^resumed <<<"$out")" "0 resumed 6"
ranks 2 "$tmp/d" resume="$tmp/c" --ddp-ckpt-every=8
is "from one folder into another" "$rc $(ls "$tmp/d")" "0 step-00000008" || diag "$err"
ranks 1,1 none resume=none
unread=$(bits)
run "$top_builddir/ddp" run -n 2 --layout 1,1 sh -c 'mkdir -p "$1/$RANK" && cd "$1/$RANK" && exec "$2" ckpt' sh "$tmp" \
    "$probe"
is "a folder that nodes do not share: refused" "$rc" 1
like "... and said" "$err" 'rank 1: .*/1/ckpt on node 1 is not the folder that rank 0'
for code in EACCES:Permission EIO:Input/output ENOENT:late; do
    export LD_PRELOAD=$top_builddir/t/lib/.libs/fault.so FAULT_DIR=$tmp/unread-$code FAULT_RANK=1 FAULT_FS=0x6969
    FAULT_CALL="open unread" FAULT_AT=1 FAULT_DO=${code%:*} ranks 1,1 "$FAULT_DIR" resume=none open=on \
        wait=on --ddp-ckpt-every=6
    unset LD_PRELOAD
    is "$code: the folder, which one rank cannot open: goes on" "$rc $(bits)" "0 $unread" || diag "$err"
    if [ ${code%:*} = ENOENT ]; then
        is "... which looks again" "$(grep -c ^warning <<<"$out") $(ls "$FAULT_DIR" | xargs)" \
            "0 step-00000006 step-00000012"
        continue
    fi
    like "... and says why" "$out" "warning rank 1: cannot open the folder $FAULT_DIR: ${code#*:}"
    is "... once" "$(grep -c ^warning <<<"$out") $(ls "$FAULT_DIR" | xargs)" "1 step-00000006 step-00000012"
done
done_testing
