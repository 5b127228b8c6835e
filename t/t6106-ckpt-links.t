#!/bin/bash
# No file of a user's is at risk, whatever another user, or he himself, has put into a folder of checkpoints: two real
# users, `nobody` who trains and `daemon` who plants links and folders.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/t/lib/ckptprobe.sh"
[ "$(id -u)" = 0 ] || skip_all "needs root, to be two users"
umask 022

owner=nobody other=daemon
as() { setpriv --reuid="$1" --regid="$(id -g "$1")" --clear-groups "${@:2}"; }
train() {
    run setpriv --reuid=$owner --regid="$(id -g $owner)" --clear-groups "$top_builddir/ddp" run -n 2 "$probe" "$@"
}
folder() { # PATH MODE USER
    mkdir -m "$2" "$1" && chown "$3:" "$1" && chmod "$2" "$1"
}
folder "$tmp/home" 755 $owner
home=$tmp/home
train none resume=none
want=$(bits)

# What must stay as it is: an archive, a folder of the owner's alone, a key.
folder "$home/precious" 700 $owner
folder "$home/.ssh" 700 $owner
as $owner sh -c "echo thesis >$home/precious/thesis; echo key >$home/.ssh/authorized_keys"
belongings() { (cd "$home" && find precious .ssh -type f -exec sha256sum {} + && find precious .ssh | sort); }
before=$(belongings)
unharmed() { is "$1: the owner's own files are as they were" "$(belongings)" "$before"; }

# --- the owner's own link ---
train "$home/ck" steps=6 --ddp-ckpt-every=3 wait=on
as $owner sh -c "cd $home && mv ck/step-00000003 archive && ln -s $home/archive ck/step-00000003"
archive=$(find "$home/archive" -type f | wc -l)
train "$home/ck" --ddp-ckpt-every=3 wait=on
is "an archived checkpoint behind a link: trains on" "$rc $(grep -c ^step <<<"$out")" "0 6" || diag "$err"
is "... the archive is whole" "$(find "$home/archive" -type f | wc -l)" "$archive"
is "... the link stays" "$(ls "$home/ck")" $'step-00000003\nstep-00000009\nstep-00000012'
like "... and is named" "$out" 'warning .*/ck/step-00000003 is a link, which nothing is written or removed through'
"$top_builddir/ddp" ckpt verify "$home/ck" >"$tmp/verify" 2>&1
is "... and can be read through" "$? $(grep -c 'are as they were written' "$tmp/verify")" "0 3" ||
    diag "$(cat "$tmp/verify")"
as $owner ln -s "$home/precious" "$home/ck/step-00000015"
train "$home/ck" steps=18 --ddp-ckpt-every=3 wait=on
is "a link in a checkpoint's place: trains on" "$rc" 0 || diag "$err"
is "... other steps are saved" "$(cd "$home/ck" && echo step-*1[58])" "step-00000015 step-00000018"
unharmed "a link in a checkpoint's place"

# --- a folder that others can write to ---
folder "$tmp/project" 777 $owner
as $other ln -s "$home/precious" "$tmp/project/.saving-x"
as $other ln -s "$home/.ssh" "$tmp/project/step-00000001"
train "$tmp/project" --ddp-ckpt-every=3 wait=on
is "links of another's in a shared folder: trains" "$rc $(bits)" "0 $want" || diag "$err"
unharmed "links of another's in a shared folder"
is "... they stay" "$(find "$tmp/project" -type l | wc -l)" 2
like "... and are named" "$out" 'warning .*/project/(.saving-x|step-00000001) is a link, .* \(and 1 more\)'
like "... and who can write there is said" "$out" \
    'warning .*/project: everybody can write to it and so remove or replace'
is "... once" "$(grep -c 'everybody can write' <<<"$out")" 1
train "$tmp/project" resume="$tmp/project" --ddp-ckpt-private=on --ddp-ckpt-every=3 steps=15
is "ckpt-private refuses such a folder, but for going on from it" "$rc $(grep -c ^step <<<"$out")" "1 3"
like "... and says the cure" "$err" 'everybody can write to it .*: use a folder of your own \(mkdir -m 755\)'
as $owner mkdir "$tmp/project/thesis" && as $owner sh -c "echo thesis >$tmp/project/thesis/thesis"
as $other mv "$tmp/project/thesis" "$tmp/project/.saving-y"
as $other mkdir -p "$tmp"/project/step-000000{15,16,17}
train "$tmp/project" --ddp-ckpt-every=3 wait=on steps=18
is "a folder of the owner's under the name of a save: it stays" "$rc $(cat "$tmp/project/.saving-y/thesis")" "0 thesis"
like "... and is named" "$out" '(.saving-y has thesis in it|and [1-9] more)'
is "checkpoints that another has made up count for none" "$(cd "$tmp/project" && echo step-*/manifest.json)" \
    "step-00000012/manifest.json step-00000018/manifest.json"

# --- the token is read, and the next save's folder planted ---
folder "$tmp/open" 777 $owner
mkfifo "$tmp/reached" "$tmp/go"
chown $owner: "$tmp/reached" "$tmp/go"
plant() {
    local token
    read -r <"$tmp/reached"
    token=$(as $other cat "$tmp/open/.writer")
    as $other ln -s "$home/.ssh" "$tmp/open/.saving-$token-step-00000006"
    as $other mkdir -m 777 "$tmp/open/.saving-$token-step-00000009"
    as $other sh -c "umask 0; cd $tmp/open/.saving-$token-step-00000009 &&
        for i in 1 2 3 4 5 6 7 8 9; do
            for name in model optimizer state; do
                ln -s $home/.ssh/authorized_keys \$name-0000\$i-of-00001.safetensors
            done
        done"
    echo >"$tmp/go"
}
plant &
PROBE_PAUSE="echo >$tmp/reached; read -r x <$tmp/go" train "$tmp/open" pause=4 --ddp-ckpt-every=3 wait=on
wait $!
is "planted where the next save would go: trains" "$rc $(bits)" "0 $want" || diag "$err"
is "... these two saves fail, the one after is there" "$(grep status <<<"$out")" "status 2 2 12"
unharmed "planted where the next save would go"
like "... the link is named" "$out" \
    'warning the checkpoint of step 6 failed: .*\.saving-[0-9a-f]*-step-00000006 is a link'
like "... the folder is named" "$out" \
    "warning the checkpoint of step 9 failed: .*step-00000009 belongs to another user \\(uid $(id -u $other)\\)"

# --- another folder in its place ---
folder "$tmp/above" 777 $owner
train "$tmp/above/b" --ddp-ckpt-every=3 wait=on --ddp-keep=3 steps=30
kept=$(find "$tmp/above/b" | sort)
swap() {
    read -r <"$tmp/reached"
    as $other sh -c "cd $tmp/above && mv run was && mv b run"
    echo >"$tmp/go"
}
swap &
PROBE_PAUSE="echo >$tmp/reached; read -r x <$tmp/go" train "$tmp/above/run" open=on pause=2 --ddp-ckpt-every=3 wait=on
wait $!
as $other mv "$tmp/above/run" "$tmp/above/b"
is "a folder that is put in its place: trains" "$rc $(bits)" "0 $want" || diag "$err"
is "... and is as it was" "$(find "$tmp/above/b" | sort)" "$kept"
like "... and told" "$out" 'warning .*/above/run is another folder than when this job began'
train "$tmp/above/new" --ddp-ckpt-private=on --ddp-ckpt-every=3
is "ckpt-private refuses where that could be done" "$rc $(grep -c status <<<"$out")" "1 0"
like "... and says it" "$err" 'others can put another folder in its place'

# --- a scratch disk ---
folder "$tmp/scratch" 1777 root
as $other mkdir -m 777 "$tmp/scratch/run"
chmod 777 "$tmp/scratch/run"
as $other ln -s "$home/.ssh" "$tmp/scratch/run/.saving-x"
train "$tmp/scratch/run" --ddp-ckpt-every=3 wait=on
is "a folder that another made first: trains" "$rc $(bits)" "0 $want" || diag "$err"
unharmed "a folder that another made first"
like "... whose it is is said" "$out" "warning .*/scratch/run: it belongs to another user \\(uid $(id -u $other)\\)"

# --- links on the way ---
folder "$tmp/shared" 777 root
as $other ln -s "$home/precious" "$tmp/shared/ck"
train "$tmp/shared/ck" --ddp-ckpt-every=3 resume=none
like "another's link as the folder: not followed" "$out" 'warning .*/shared/ck: ck is a link of another user.s'
unharmed "another's link as the folder"
train "$tmp/shared/ck" --ddp-ckpt-every=3 --ddp-ckpt-required=on resume=none
is "... and refused where checkpoints are required" "$rc" 1
folder "$tmp/theirs" 755 $other
as $other ln -s "$home/ck" "$tmp/theirs/ck"
kept=$(find "$home/ck" | sort)
train "$tmp/theirs/ck" --ddp-ckpt-every=3 resume=none
like "a link of his in his own folder, to what is not his: not followed" "$out" \
    'warning .*/theirs/ck: a link of another user.s .* leads to what is not his'
is "... all is as it was" "$(find "$home/ck" | sort)" "$kept"
as $owner mkdir "$home/real"
as $owner ln -s "$home/real" "$tmp/shared/mine"
train "$tmp/shared/mine" --ddp-ckpt-every=6 wait=on
is "the owner's own link is followed" "$rc $(ls "$home/real")" $'0 step-00000006\nstep-00000012' || diag "$out$err"
unlike "... without a warning" "$out" warning

# --- what we make ourselves ---
umask 0
train "$tmp/shared/deep/ck" --ddp-ckpt-every=12 wait=on
is "nobody else can write to what a job makes, whatever the umask" \
    "$(find "$tmp/shared/deep" -perm /022 | wc -l) $(find "$tmp/shared/deep" -type f | wc -l)" "0 $(
        find "$home/real/step-00000012" -type f | wc -l)"
unharmed "in the end"
done_testing
