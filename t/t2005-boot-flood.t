#!/bin/bash
# ddp run: its ranks meet in a folder that only their user may enter, and no flood of another user's harms a job. t9205
# has more floods.
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
ddp=$top_builddir/ddp
train=("$top_builddir/train" --data /usr/share/common-licenses/GPL-3 --steps 1)
unset DDP_BOOT DDP_BOOT_ADDR DDP_NODE
export TMPDIR=$tmp
no_folder() { ! ls -d "$1"/ddp-?????? 2>"$tmp/ls.err"; }

# ---- the folder ----
cat >"$tmp/where.sh" <<'SCRIPT'
path=${DDP_BOOT_ADDR#unix:}
stat -c '%a %u %F' "${path%/*}" "$path" | tr '\n' ' '
echo "$DDP_BOOT_ADDR"
SCRIPT
where() { run env "$@" "$ddp" run -n 1 sh "$tmp/where.sh"; }
where
like "a socket in a folder that only its user may enter" "$rc $out" \
    "^0 700 $(id -u) directory .* $(id -u) socket unix:$tmp/ddp-[^/]{6}/boot$"
ok "the folder is gone" no_folder "$tmp"
long=$tmp/$(printf 'x%.0s' {1..100})
mkdir "$long"
where TMPDIR="$long"
like "a path too long for a socket: /tmp" "$rc $out" "^0 .* unix:/tmp/ddp-[^/]{6}/boot$"
where TMPDIR=relative
like "... a relative one as well" "$rc $out" "^0 .* unix:/tmp/ddp-"
run "$ddp" run -n 2 -- "$tmp/nope"
ok "the folder is gone where the program is not found" no_folder "$tmp"

cat >"$tmp/stay.sh" <<'SCRIPT'
echo $$ >$1/stay.$RANK.new && mv $1/stay.$RANK.new $1/stay.$RANK
trap '' TERM HUP INT
while :; do sleep 60; done
SCRIPT
for victim in ddp supervisor; do
    rm -f "$tmp"/stay.[01]
    "$ddp" run -n 2 sh "$tmp/stay.sh" "$tmp" 2>"$tmp/victim.err" &
    pid=$!
    until_true 30 test -s "$tmp/stay.0" -a -s "$tmp/stay.1"
    ok "a folder while the job runs" test -S "$tmp"/ddp-??????/boot
    if [ $victim = ddp ]; then kill -KILL $pid; else kill -KILL "$(<"/proc/$pid/task/$pid/children")"; fi
    wait $pid 2>"$tmp/wait.err"
    ok "the folder is gone when the $victim is killed" until_true 30 no_folder "$tmp"
done

# ---- floods, in a network of their own ----
cat >"$tmp/flooded.sh" <<'SCRIPT'
# WAY COMMAND...: COMMAND as nobody while four threads of another user's flood whatever it listens at
PATH=$PATH:/sbin:/usr/sbin
ip link set lo up || exit 99
setpriv --reuid daemon --regid daemon --clear-groups "$flood" 60 4 "$1" "$(id -u nobody)" >"$tmp/flood.out" &
flood=$! # $! itself is the process substitution's, from the second round on
until grep -qs flooding "$tmp/flood.out"; do kill -0 $flood || exit 99; read -rt 0.02 <> <(:); done
setpriv --reuid nobody --regid nogroup --clear-groups "${@:2}" <&0 &
echo $! >"$tmp/flooded.pid.new" && mv "$tmp/flooded.pid.new" "$tmp/flooded.pid"
wait $!
rc=$?
kill $flood
exit $rc
SCRIPT
export tmp flood=$top_builddir/t/lib/flood
setpriv --reuid nobody --regid nogroup --clear-groups test -x "$top_builddir" 2>"$tmp/can.err" &&
    run unshare -n bash "$tmp/flooded.sh" close true || rc=99 err=
if [ "$rc" -ne 0 ]; then
    tap_result 0 "floods # SKIP they need root, a network namespace, and a folder that everyone may enter"
    diag "$(<"$tmp/can.err")$err"
    done_testing
fi
flooded() { # DESC WAY OPTION...: jobs that train are unharmed
    local i desc=$1 bad=""
    for ((i = 0; i < ${times:-1}; i++)); do
        run unshare -n bash "$tmp/flooded.sh" "$2" timeout -k 5 30 "$ddp" run "${@:3}" "${train[@]}"
        [ "$rc" -eq 0 ] || bad+=" $rc $out $err"
    done
    is "$desc: $2" "$bad" ""
}
unset TMPDIR
for way in close silence garbage; do
    flooded "two ranks" $way -n 2
    flooded "two virtual nodes" $way --layout 2,1
    flooded "a boot server at a port" $way -n 2 --boot tcp:127.0.0.1:0
    flooded "... and under an abstract name" $way -n 2 --boot "unix:@ddp-t-$$"
done

# ---- a stop signal under a flood ----
cat >"$tmp/stop.sh" <<'SCRIPT'
trap 'echo $(date +%s%N) >$1/stopped.$RANK; exit 0' TERM
echo >$1/ready.$RANK
while :; do sleep 0.1; done
SCRIPT
mkdir -m 777 "$tmp/stop"
rm -f "$tmp/flooded.pid"
unshare -n bash "$tmp/flooded.sh" close "$ddp" run -n 2 --boot "unix:@ddp-t-$$" bash "$tmp/stop.sh" "$tmp/stop" \
    >"$tmp/stop.out" 2>&1 &
pid=$!
until_true 30 test -e "$tmp/stop/ready.0" -a -e "$tmp/stop/ready.1"
start=$(date +%s%N)
kill -TERM "$(<"$tmp/flooded.pid")"
ok "SIGTERM reaches the ranks under a flood" until_true 20 test -s "$tmp/stop/stopped.0" -a -s "$tmp/stop/stopped.1"
wait $pid
is "... and they end" $? 0
diag "after $((($(sort -n "$tmp"/stop/stopped.? | tail -1) - start) / 1000000)) ms"
# --- no port is left: one for each rank's listener, or not even that ---
for last in 40000 40003; do
    run unshare -n sh -c 'ip link set lo up && echo "40000 $0" >/proc/sys/net/ipv4/ip_local_port_range && exec "$@"' \
        $last timeout -k 5 30 "$ddp" run -n 4 --layout 1,1,1,1 "${train[@]}"
    like "ports up to $last: what is short is named" "$rc $err" \
        '^1 .*(listen on|is not reached at) .*\(no port is free in net\.ipv4\.ip_local_port_range\): '
done
done_testing
