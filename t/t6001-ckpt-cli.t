#!/bin/bash
# ddp ckpt: checkpoints listed, verified, shown and exported; what is broken is named.
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
ckpt() { run "$top_builddir/ddp" ckpt "$@"; }
make_ckpt() { "$top_builddir/t/lib/ckptmake" "$@"; }
# flip FILE BYTE: another byte in its place
flip() {
    local old
    old=$(od -An -tu1 -j "$2" -N1 "$1")
    # shellcheck disable=SC2059
    printf "\\x$(printf %02x $((old ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# usage
ckpt --help
like "help" "$rc:$out" "^0:usage: ddp ckpt ls DIR"
for wrong in "" "list $tmp" "ls" "ls a b" "export $tmp"; do
    # shellcheck disable=SC2086
    ckpt $wrong
    like "wrong usage: ckpt $wrong" "$rc:$err" "^2:ddp ckpt: .*see \"ddp ckpt --help\"$"
done
ckpt ls "$tmp/nowhere"
like "a folder that is not there" "$rc:$err" "^1:ddp ckpt: .*nowhere: No such file"
mkdir "$tmp/c"
ckpt verify "$tmp/c"
like "a folder without checkpoints" "$rc:$err" "^1:ddp ckpt: .*/c has no checkpoint"

# two good ones
ok "a checkpoint" make_ckpt "$tmp/c" 100
ok "a second one, in many files" make_ckpt "$tmp/c" 2000 8500
mkdir "$tmp/c/step-00003000" # never committed
ckpt ls "$tmp/c"
is "both are listed, oldest first" "$rc:$err" "0:"
like "with what matters" "$out" $'\n +100  2026-11-21T20:15:02Z +4 +[0-9.]+ KiB +15  periodic\n +2000  '
is "and no others" "$(wc -l <<<"$out")" 3
ckpt verify "$tmp/c"
like "both are verified" "$rc:$out" \
    $'^0:[^\n]*/step-00000100: 5 files and 15 tensors are as they were written[^\n]*\n[^\n]*/step-00002000: '
ckpt verify "$tmp/c/step-00000100/"
like "one alone" "$rc:$(wc -l <<<"$out")" "^0:1$"
ckpt show "$tmp/c"
like "the newest is shown" "$rc:$out" "^0:.*/step-00002000: "
like "with where training is" "$out" "data +epoch 1, 64 of 1000 samples taken; order ledger, seed 18446744073709551615"
like "on one line each" "$out" "optimizer +name=adamw lr=0.001"
like "what sums go over" "$out" "sums over +ranks"
like "its tensors" "$out" $'\nwte.weight +F32  257 x 32 +1  [0-9a-f]{16}\n'

# what it says reaches no terminal as more than words: escapes of C0 and C1, a line, what is no UTF-8
words=$'\e[2J\n\xc2\x9b\x7f\xffé'
ok "a hostile one" make_ckpt "$tmp/hostile" 1 1000000 "$words"
ckpt show "$tmp/hostile"
is "its words are shown plainly" "$rc:$(grep -c -F '?[2J ??' <<<"$out")" 0:10
is "... and nothing else" "$(LC_ALL=C grep -c $'[\x01-\x1f\x7f]\|\xc2\x9b\|\xff' <<<"$out")" 0
ckpt ls "$tmp/hostile"
like "... also in the list" "$rc:$out" '^0:.*  \?\[2J \?\?'
mkdir "$tmp/$words" && mv "$tmp/hostile" "$tmp/$words/c"
for verb in verify show export; do
    to=()
    [ $verb != export ] || to=("$tmp/$words/m")
    ckpt $verb "$tmp/$words/c" "${to[@]}"
    like "... a folder's own name, by $verb" "$rc:$out" '^0:.*\?\[2J \?\?\?é/'
    is "... and nothing else" "$(LC_ALL=C grep -c $'[\x01-\x1f\x7f]\|\xc2\x9b\|\xff' <<<"$out")" 0
done
run "$top_builddir/ddp" "$words"
is "... nor what is no verb" "$rc:$err" '2:ddp: "?[2J ???é" is not a verb of ddp: "ddp help" lists them'

# export
ckpt export "$tmp/c" "$tmp/model.safetensors"
like "the model is exported" "$rc:$out" "^0:.*model.safetensors: the model of .*/step-00002000"
is "without a trace beside it" "$(cd "$tmp" && echo model*)" "model.safetensors"
ckpt export "$tmp/c/step-00000100" "$tmp/same.safetensors"
ok "from one file or many it is the same" cmp "$tmp/model.safetensors" "$tmp/same.safetensors"
ok "which is the file of a checkpoint in one" cmp "$tmp/same.safetensors" \
    "$tmp/c/step-00000100/model-00001-of-00001.safetensors"
ckpt export "$tmp/c" "$tmp/folder/"
like "... into a folder that is not there yet" "$rc:$out" "^0:$tmp/folder/model.safetensors: the model of "
ok "... with the same bytes" cmp "$tmp/folder/model.safetensors" "$tmp/model.safetensors"
ok "... and config.json" cmp "$tmp/folder/config.json" "$tmp/c/step-00002000/config.json"
echo old >"$tmp/folder/model.safetensors"
ckpt export "$tmp/c" "$tmp/folder"
ok "... or into one that is" cmp "$tmp/folder/model.safetensors" "$tmp/model.safetensors"
is "... and nothing else is there" "$(ls -A "$tmp/folder" | xargs)" "config.json model.safetensors"
ckpt export "$tmp/c" "$tmp/no/where/"
like "... not below one that is not there" "$rc:$err" "^1:ddp ckpt: $tmp/no/where/: No such file"
ckpt export "$tmp/c" "$tmp/no/where"
like "a folder that is not there" "$rc:$err" "^1:ddp ckpt: .*/no/where: creating it: No such file"
mkfifo "$tmp/fifo"
ln -s fifo "$tmp/link"
for file in fifo link; do
    ckpt export "$tmp/c" "$tmp/$file"
    like "a $file, which is no file" "$rc:$err" "^1:ddp ckpt: .*/$file is no file: name one$"
done
is "... stays what it is" "$(stat -c %F "$tmp/fifo" "$tmp/link" | xargs)" "fifo symbolic link"
for file in config.json model.safetensors; do
    mkdir "$tmp/with-$file"
    mkfifo "$tmp/with-$file/$file"
    ckpt export "$tmp/c" "$tmp/with-$file"
    like "... nor is a folder's $file" "$rc:$err" "^1:ddp ckpt: .*/$file is no file: name one$"
    ok "... which stays" test -p "$tmp/with-$file/$file"
done
mkdir "$tmp/small"
run bash -c 'trap "" XFSZ; ulimit -f 16; exec "$@"' - "$top_builddir/ddp" ckpt export "$tmp/c" "$tmp/small/m"
like "a file that cannot be written whole" "$rc:$err" "^1:ddp ckpt: .*/small/m: writing: File too large"
is "leaves nothing there" "$(ls -A "$tmp/small")" ""
run bash -c 'ulimit -f 16; exec "$@"' - "$top_builddir/ddp" ckpt export "$tmp/c" "$tmp/small/m"
is "a signal ends it" "$rc:$(ls -A "$tmp/small")" "153:"
run bash -c 'ulimit -f 16; exec "$@"' - "$top_builddir/ddp" ckpt export "$tmp/c" "$tmp/small/new/"
is "... and leaves no folder that it made" "$rc:$(ls -A "$tmp/small")" "153:"

# broken ones: named, not exported, and the others still seen
cp -r "$tmp/c" "$tmp/b"
model=$tmp/b/step-00002000/model-00003-of-00004.safetensors
flip "$model" 5000
ckpt ls "$tmp/b"
is "ls does not read tensors" "$rc" 0
ckpt verify "$tmp/b"
like "a flipped bit" "$rc:$err" \
    "^1:ddp ckpt: .*model-00003-of-00004.safetensors is damaged \(tensor h.0.mlp.c_fc.weight\): restore it"
like "the other one is verified all the same" "$out" "step-00000100: .* as they were written"
cp "$tmp/model.safetensors" "$tmp/kept"
ckpt export "$tmp/b" "$tmp/kept"
like "is not exported" "$rc:$err" "^1:ddp ckpt: .*/kept: .*is damaged"
ok "and what was there stays" cmp "$tmp/model.safetensors" "$tmp/kept"
is "without a trace beside it" "$(cd "$tmp" && echo kept*)" "kept"
ckpt export "$tmp/b" "$tmp/new/"
like "... nor into a folder" "$rc:$err" "^1:ddp ckpt: $tmp/new/model.safetensors: .*is damaged"
ok "... which is not there then" test ! -e "$tmp/new"
mkdir "$tmp/older"
for file in config.json model.safetensors; do echo "old $file" >"$tmp/older/$file"; done
ckpt export "$tmp/b" "$tmp/older"
is "... and an older export stays whole" "$rc:$(cd "$tmp/older" && echo * && cat -- *)" \
    $'1:config.json model.safetensors\nold config.json\nold model.safetensors'
truncate -s -1 "$model"
ckpt ls "$tmp/b"
like "a short file" "$rc:$err" "^1:ddp ckpt: .*-00003-of-00004.safetensors has [0-9]+ bytes, not [0-9]+: restore it"
rm "$model"
ckpt ls "$tmp/b"
like "a missing file" "$rc:$err" "^1:ddp ckpt: .*model-00003-of-00004.safetensors is missing"
like "the other one is listed all the same" "$out" $'\n +100  '
flip "$tmp/b/step-00000100/manifest.json" 30
ckpt show "$tmp/b/step-00000100"
like "a manifest" "$rc:$err" "^1:ddp ckpt: .*/step-00000100: manifest.json does not have its own checksum"

# one that lies in another step's folder
mkdir "$tmp/w"
cp -r "$tmp/c/step-00000100" "$tmp/w/"
cp -r "$tmp/c/step-00000100" "$tmp/w/step-00000150"
for verb in ls verify show export; do
    to=()
    [ $verb != export ] || to=("$tmp/misnamed")
    ckpt $verb "$tmp/w" "${to[@]}"
    like "another step's checkpoint, by $verb" "$rc:$err" \
        "^1:ddp ckpt: .*/step-00000150/manifest.json is that of step 100: restore it, or remove this checkpoint"
    is "... is not called good" "$(grep -c 'step-00000150' <<<"$out")" 0
done
ckpt ls "$tmp/w"
is "... nor listed twice" "$(grep -c '^ *100 ' <<<"$out")" 1
ckpt ls "$tmp/w/step-00000150/"
is "... nor taken where it is named" "$rc" 1
cp "$tmp/c/step-00002000/manifest.json" "$tmp/w/step-00000100/"
ckpt verify "$tmp/w/step-00000100"
like "another step's manifest alone is what is blamed" "$rc:$err" "^1:ddp ckpt: .*/manifest.json is that of step 2000"
done_testing
