# Five network namespaces in a guest whose clock is virtual:
#
#     near --- edge --- core --- far        other hosts: `beside` at edge, `behind` at core
#
# `edge` sends to `core` over the narrow link, and back. The delay, and all that is random, is where
# core sends to far and where edge sends to near, so that it has a queue of its own. The variables
# are set by the matrix: FAMILY (4 or 6), MTU, FIRST (rate of the hosts' own links), DELAY_OUT and
# DELAY_BACK (arguments of netem), LIMITS (sysctls of both hosts), REVERSE (1 if the receiver asks).
set -e
# Nothing is left of a cell before this one, nor of this one.
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
for name in near edge core far beside behind; do
    [ ! -e /run/netns/$name ] || {
        kill -9 $(ip netns pids $name) 2>/dev/null || true
        ip netns del $name
    }
done
# The hosts have memory for all windows.
sysctl -qw net.ipv4.tcp_mem='200000 250000 300000'
for name in near edge core far beside behind; do
    ip netns add $name
    ip -n $name link set lo up
done
# link NAME NUMBER ROUTER: a host with its address in network NUMBER of this router
link() {
    ip link add $3 netns $1 mtu $MTU type veth peer name $1 mtu $MTU netns $3
    ip -n $1 addr add 10.0.$2.2/24 dev $3; ip -n $3 addr add 10.0.$2.1/24 dev $1
    ip -n $1 addr add fd00:$2::2/64 dev $3 nodad; ip -n $3 addr add fd00:$2::1/64 dev $1 nodad
    up $1 $3; up $3 $1
    ip -n $1 route add default via 10.0.$2.1; ip -n $1 route add default via fd00:$2::1
}
# Packets, not the large segments of a host's own memory: as a path carries them. Both ends of a link
# have the same address, so that nobody needs to ask for one: a lossy link would lose the answers.
up() {
    ip -n $1 link set $2 address 02:00:00:00:00:01 arp off gso_max_segs 1
    ip -n $1 link set $2 up
}
link near 1 edge; link beside 3 edge; link far 2 core; link behind 4 core
ip link add core netns edge mtu $MTU type veth peer name edge mtu $MTU netns core
ip -n edge addr add 10.0.9.1/24 dev core; ip -n core addr add 10.0.9.2/24 dev edge
ip -n edge addr add fd00:9::1/64 dev core nodad; ip -n core addr add fd00:9::2/64 dev edge nodad
up edge core; up core edge
ip -n edge route add default via 10.0.9.2; ip -n core route add default via 10.0.9.1
ip -n edge route add default via fd00:9::2; ip -n core route add default via fd00:9::1
for router in edge core; do
    ip netns exec $router sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
done
for host in near far; do
    ip netns exec $host sysctl -qw net.ipv4.tcp_rmem='4096 131072 67108864' \
        net.ipv4.tcp_wmem='4096 16384 67108864' $LIMITS
done
BEHIND=10.0.4.2
[ $FAMILY = 4 ] || BEHIND=fd00:4::2
# A host's own link has a rate, or its bursts would be infinitely fast.
first() {
    ip netns exec $1 tc qdisc add dev $2 root handle 1: tbf rate $FIRST burst $((MTU * 3 + 1000)) limit $((MTU * 1000))
}
first near edge; first far core
delay() {
    device=$2; router=$1; shift 2
    ip netns exec $router tc qdisc add dev $device root handle 1: netem limit 1000000 "$@"
}
delay core far $DELAY_OUT; delay edge near $DELAY_BACK
# outage SECONDS: nothing passes, in either direction
outage() {
    ip netns exec core tc qdisc change dev far root handle 1: netem limit 1000000 $DELAY_OUT loss 100%
    ip netns exec edge tc qdisc change dev near root handle 1: netem limit 1000000 $DELAY_BACK loss 100%
    sleep $1
    ip netns exec core tc qdisc change dev far root handle 1: netem limit 1000000 $DELAY_OUT loss 0%
    ip netns exec edge tc qdisc change dev near root handle 1: netem limit 1000000 $DELAY_BACK loss 0%
}
# narrow ARGUMENTS...: the queue of the narrow link, forward; `narrow_back` is that of the way back.
narrow() { ip netns exec edge tc qdisc replace dev core root handle 1: "$@"; }
narrow_back() { ip netns exec core tc qdisc replace dev edge root handle 1: "$@"; }
# police WHERE RATE BURST: where packets enter the router `edge`, or where they leave it
police() {
    case $1 in
    enter) device=near direction=ingress ;;
    *) device=core direction=egress ;;
    esac
    ip netns exec edge tc qdisc add dev $device clsact
    ip netns exec edge tc filter add dev $device $direction matchall action police rate $2 burst $3 conform-exceed drop
}
# others ARGUMENTS...: another program sends across the narrow link. Its datagrams come with jitter, or
# they would keep time with the timers of the prober.
others() {
    case "$*" in
    *-u*) ip netns exec beside tc qdisc replace dev edge root netem limit 100000 delay 3ms 2ms ;;
    esac
    ip netns exec beside iperf3 -c $BEHIND "$@" >/dev/null 2>&1
}
ip netns exec behind iperf3 -s -D >/dev/null
export LONGHAUL_TOKEN=matrix-of-verdicts-0123456789
# The data goes from near to far, whoever asks for it.
CLIENT=near SERVER=far ADDRESS=10.0.2.2
[ $FAMILY = 4 ] || ADDRESS=fd00:2::2
if [ $REVERSE = 1 ]; then
    CLIENT=far SERVER=near ADDRESS=10.0.1.2
    [ $FAMILY = 4 ] || ADDRESS=fd00:1::2
fi
# Connections have the buffers that are set when their server starts.
serve() {
    ip netns exec $SERVER $LONGHAUL serve >/dev/null 2>&1 &
    SERVE=$!
    sleep 1
}
serve
run() { ip netns exec $CLIENT $LONGHAUL test $ADDRESS "$@" --no-save --json --quiet; }
