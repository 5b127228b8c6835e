# shellcheck shell=bash disable=SC2034,SC2154
# cluster-net.sh - where the nodes of the cluster are: ports, addresses, and with --netns a network of their own.
# Everything that exists outside DIR has a name that begins with ddp-ID.

net_name() { [ -z "$use_netns" ] || echo "ddp-$id-n$1"; } # network namespace of node $1
node_addr() { if [ -n "$use_netns" ]; then echo "$subnet.$1"; else echo 127.0.0.1; fi; }
ctl_addr() { if [ -n "$use_netns" ]; then echo "$subnet.254"; else echo 127.0.0.1; fi; }

# Sets $port, the first of $1 successive ports that nobody listens on: at random, below the range that the kernel hands
# out by itself and below the plugin's default range for MASTER_PORT.
pick_ports() {
    local low busy first i
    read -r low _ </proc/sys/net/ipv4/ip_local_port_range
    [ "$low" -ge 12000 ] && [ "$low" -le 20000 ] || low=20000
    busy=" $(ss -Hltun | awk '{ sub(/.*:/, "", $5); print $5 }' | xargs) "
    while :; do
        first=$((10000 + RANDOM % (low - 10000 - $1)))
        for ((i = first; i < first + $1; i++)); do [[ $busy != *" $i "* ]] || continue 2; done
        port=$first
        return
    done
}

# Sets $subnet: three octets within 198.18.0.0/15, which RFC 2544 sets aside for tests, that no interface here uses.
pick_subnet() {
    local used
    used=$(ip -4 -o addr; ip -4 route)
    while :; do
        subnet=198.$((18 + RANDOM % 2)).$((RANDOM % 256))
        [[ $used == *"$subnet."* ]] || return 0
    done
}

net_up() {
    local i bridge=ddp-$id
    pick_ports $((n + 1 + 32 + cpus))
    [ -n "$use_netns" ] || return 0
    pick_subnet
    ip link add "$bridge" type bridge || die "no network bridge can be made here: up without --netns still works"
    # its own for good: else it takes the lowest of its ports', and changes it with them, which nodes learn late
    ip link set "$bridge" address "$(<"/sys/class/net/$bridge/address")"
    ip addr add "$(ctl_addr)/24" dev "$bridge"
    ip link set "$bridge" up
    for ((i = 1; i <= n; i++)); do
        ip netns add "ddp-$id-n$i"
        ip link add "ddp-$id-$i" type veth peer name eth0 netns "ddp-$id-n$i"
        ip link set "ddp-$id-$i" master "$bridge" up
        ip -n "ddp-$id-n$i" -batch - <<IP
link set lo up
addr add $(node_addr "$i")/24 dev eth0
link set eth0 up
route add default via $(ctl_addr)
$(name_servers | sed 's/.*/route replace unreachable &/')
IP
    done
}

# A node reaches none of them, and is told so at once: else a program that asks for a name waits for ten seconds.
name_servers() { sed -nE 's/^nameserver +([0-9]+(\.[0-9]+){3}) *$/\1/p' /etc/resolv.conf 2>/dev/null || true; }

# What others add or take away meanwhile interrupts the list, which then lacks some.
all_links() {
    local links i
    for i in 1 2 3 4 5 6 7 8 9 10; do
        links=$(ip -o link 2>&1 || true)
        [[ $links == *"Dump was interrupted"* ]] || break
    done
    echo "$links"
}

# Ends what net_up made, as far as it came. A pair of veths goes with either end.
net_down() {
    local name
    command -v ip >/dev/null || return 0
    { ip netns list 2>/dev/null || true; } | awk -v p="ddp-$id-" 'index($1, p) == 1 { print $1 }' |
        while read -r name; do ip netns del "$name"; done
    all_links | awk -F': |@' -v p="ddp-$id" 'index($2, p) == 1 { print $2 }' |
        while read -r name; do ip link del "$name" 2>/dev/null || true; done
}
