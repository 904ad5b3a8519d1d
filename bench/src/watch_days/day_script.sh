# A day of an agent at `near`, after guest_network.sh. The bench sets RATE and QUEUE of the narrow link,
# TRAFFIC (arguments of iperf3), LOADS (kbit/s of the traffic of others in each slot), SLOT_S, DAY_S,
# CHANGE_S and the function `change`.

# The same narrow link on the way by a third router, which is 1.1 times DETOUR longer, and not used yet.
detour() {
    ip netns add detour
    ip -n detour link set lo up
    ip link add detour netns edge mtu $MTU type veth peer name edge mtu $MTU netns detour
    ip link add core netns detour mtu $MTU type veth peer name detour mtu $MTU netns core
    ip -n edge addr add 10.0.7.1/24 dev detour; ip -n detour addr add 10.0.7.2/24 dev edge
    ip -n detour addr add 10.0.8.1/24 dev core; ip -n core addr add 10.0.8.2/24 dev detour
    up edge detour; up detour edge; up detour core; up core detour
    ip netns exec detour sysctl -qw net.ipv4.ip_forward=1
    ip -n detour route add default via 10.0.8.2
    ip -n detour route add 10.0.1.0/24 via 10.0.7.1; ip -n detour route add 10.0.3.0/24 via 10.0.7.1
    ip netns exec edge tc qdisc add dev detour root handle 1: tbf rate $RATE burst 3100 limit $QUEUE
    ip netns exec detour tc qdisc add dev core root netem limit 100000 delay $1
    ip -n edge route replace default via 10.0.7.2
}
narrow tbf rate $RATE burst 3100 limit $QUEUE
# Datagrams of others come with jitter, or they would keep time with the timers of the prober.
ip netns exec beside tc qdisc replace dev edge root netem limit 100000 delay 3ms 2ms
echo 0 >more
cat >watch.toml <<'END'
[agent]
name = "near"
archive = "day.sqlite3"
[[host]]
name = "far"
address = "10.0.2.2"
[[target]]
host = "far"
[[measure]]
name = "route"
kind = "path"
every = "10 min"
[[measure]]
name = "avail"
kind = "available"
mode = "light"
every = "10 min"
[[measure]]
name = "bulk"
kind = "throughput"
directions = "forward"
every = "10 min"
END
# Others send while the agent measures and for two seconds more: what they send at other times costs
# time of the machine, and nobody sees it. Looking costs no process.
cat >others.bash <<'END'
LOADS=($LOADS)
mkfifo tick
exec 9<>tick
stop() {
    kill $SENDER
    kill $(ip netns pids beside)
    SENDER=
} 2>/dev/null
while :; do
    set -- day.sqlite3.agent/spool/*
    if [ -e "$1" ]; then
        LEFT=4
        if [ -z "$SENDER" ]; then
            read -r MORE <more
            LOAD=$((${LOADS[$(($(date +%s) - BEGAN)) / SLOT_S]} + MORE))
            # The server may still be busy with the sender before.
            until ip netns exec beside iperf3 -c 10.0.4.2 -t 7200 ${TRAFFIC//LOAD/${LOAD}k}; do
                sleep 0.3
            done >/dev/null 2>&1 &
            SENDER=$!
        fi
    elif [ -n "$SENDER" ]; then
        LEFT=$((LEFT - 1))
        [ $LEFT -gt 0 ] || stop
    fi
    read -rt 0.5 -u 9
done
END
# The quantities in which changes are looked for, if the file does not name others.
DETECTED="goodput|available|capacity|rtt_floor|loss|retransmits|hops"
export LOADS TRAFFIC SLOT_S BEGAN=$(date +%s)
[ -z "$TRAFFIC" ] || bash others.bash &
(sleep $CHANGE_S; change) >&2 &
(sleep $((DAY_S - 60)); ip netns exec near curl -s http://127.0.0.1:5280/metrics >metrics) &
timeout --signal=TERM $DAY_S ip netns exec near $LONGHAUL watch watch.toml >watch.log 2>&1 || true
echo "{\"changed_at_us\": $((BEGAN + CHANGE_S))000000,"
echo "\"series\": $(grep ^longhaul_newest_timestamp_seconds metrics | grep -cE "\"($DETECTED)\""),"
echo "\"runs\": $(grep -c event=run watch.log), \"events\": $($LONGHAUL report events --json --archive day.sqlite3)}"
