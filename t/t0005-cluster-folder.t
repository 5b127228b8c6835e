#!/bin/bash
# contrib/cluster, root's, at a name that other users know beforehand: what they left there is not believed.
source "$(dirname "$0")/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
cluster_need
cluster=$top_srcdir/contrib/cluster
mkdir -m 1777 "$tmp/scratch"
mkdir "$tmp/own"
echo precious >"$tmp/own/file"
dir=$tmp/scratch/c
as() { setpriv --reuid "$1" --regid "$(id -g "$1")" --clear-groups "${@:2}"; }

# As far as `down` can see, a cluster of root's in another folder: a process with that folder's file over /etc/hosts.
echo 127.0.0.1 localhost >"$tmp/own/hosts.abcde"
unshare -m bash -c 'mount --bind "$0" /etc/hosts && echo >"$1" && exec sleep 600' "$tmp/own/hosts.abcde" "$tmp/runs" &
other=$!
disown $other
at_exit 'kill -9 $other'
until_true 20 test -e "$tmp/runs" || diag "nothing runs"

# refused VERB...: contrib/cluster says no, and why; the other cluster lives, and nothing was removed.
refused() {
    run "$cluster" "$@"
    like "... ${*//"$dir"/DIR}: refused" "$rc:$err" \
        '^1:.*(root.s own.*nothing there is believed, give another|faster: give another)'
    ok "... the other cluster lives" kill -0 $other
    [ "$1:$rc" != up:0 ] || "$cluster" down --dir "$dir"
}
all_refused() {
    refused down --dir "$dir"
    refused up 1 --no-plugin --dir "$dir"
    refused run --dir "$dir" true
    refused exec --dir "$dir" n1 true
    refused crash --dir "$dir" n1
    ok "... and all is where it was" test -e "$dir" -a -e "$tmp/own/file"
    rm -rf "$dir"
}

mkdir "$dir" && echo abcde >"$dir/id"
chown -R nobody "$dir"
diag "another user's folder, with the id of a cluster of root's"
all_refused
mkdir "$dir"
chmod 1777 "$dir"
as daemon bash -c 'echo abcde >"$0"' "$dir/id"
diag "root's own folder where everybody writes"
all_refused
mkdir -p "$dir/pid"
as daemon bash -c 'echo abcde >"$0"' "$tmp/scratch/id" && mv "$tmp/scratch/id" "$dir/id"
diag "root's own folder with another user's id"
all_refused
mkdir "$dir" && ln -s "$tmp/own/id" "$dir/id" && echo abcde >"$tmp/own/id"
diag "root's own folder with a link for an id"
all_refused
as nobody ln -s "$tmp/own" "$dir"
diag "another user's link to a folder of root's that holds a cluster"
all_refused
as nobody ln -s "$tmp/own/later" "$dir"
diag "another user's link to where nothing is"
refused down --dir "$dir"
refused up 1 --no-plugin --dir "$dir"
ok "... and nothing is made there" test ! -e "$tmp/own/later"
rm "$dir"

diag "another user's empty folder, there before, or made in the last moment"
as nobody mkdir -m 755 "$dir"
at_exit '"$cluster" down --dir "$dir"'
refused up 1 --no-plugin --dir "$dir"
is "... it is still his" "$(stat -c %U "$dir")" nobody
rm -rf "$dir"
mkdir "$tmp/bin"
cat >"$tmp/bin/mkdir" <<MKDIR
#!/bin/bash
[ "\${!#}" != "$dir" ] || $(declare -f as) && as nobody /bin/mkdir -m 755 "$dir"
exec /bin/mkdir "\$@"
MKDIR
chmod 755 "$tmp/bin/mkdir"
PATH=$tmp/bin:$PATH refused up 1 --no-plugin --dir "$dir"
is "... it is still his" "$(stat -c %U "$dir")" nobody

# A mount of a user's (with FUSE anybody may make one in a folder of his) whose path ends as that of the file over
# /etc/hosts. Here it is in a namespace of its own, so that it could mark this process alone.
rm -rf "$dir"
mkdir -p "$dir" "$tmp/user/hosts.fghij" && echo fghij >"$dir/id"
unshare -m bash -c 'mount -t tmpfs none "$0" && echo >"$1" && exec sleep 600' "$tmp/user/hosts.fghij" "$tmp/mounted" &
bystander=$!
disown $bystander
at_exit 'kill -9 $bystander'
until_true 20 test -e "$tmp/mounted" || diag "nothing is mounted"
run "$cluster" down --dir "$dir"
is "a mount elsewhere, of that name: the cluster goes" "$rc:$err:$(ls "$tmp/scratch")" "0::"
ok "... and who sees that mount lives" kill -0 $bystander

rm -rf "$dir"
run "$cluster" down --dir "$dir"
is "no folder at all: nothing to end" "$rc:$err" "0:"
is "what root had is there" "$(cat "$tmp/own/file")" precious
done_testing
