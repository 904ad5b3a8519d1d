# What a bed of available bandwidth adds to the network of a cell: traffic of others, the hop behind
# the narrow link, and readings of the kernel's counters.
#
# Programs share one core in a guest: one that must wait sends its datagrams later than it wants to.
# A delay makes this independent of the probes, with jitter where times are random anyway.
#
# generate JITTER PATTERN...: mgen sends datagrams across the narrow link, in one of its patterns
generate() {
    ip netns exec beside tc qdisc replace dev edge root netem limit 100000 delay 6ms $1
    shift
    ip netns exec beside mgen flush event "ON 1 UDP DST $BEHIND/5009 $*" output /dev/null >/dev/null 2>&1
}
# generate_to_far JITTER PATTERN...: the same from `behind` to `far`, across the second hop only
generate_to_far() {
    ip netns exec behind tc qdisc replace dev core root netem limit 100000 delay 6ms $1
    shift
    ip netns exec behind mgen flush event "ON 1 UDP DST $FAR/5009 $*" output /dev/null >/dev/null 2>&1
}
FAR=10.0.2.2
[ $FAMILY = 4 ] || FAR=fd00:2::2
for sink in behind far; do
    ip netns exec $sink mgen port 5009 output /dev/null >/dev/null 2>&1 &
done
# second_hop ARGUMENTS...: the queue of the hop behind the narrow link, instead of the delay there
second_hop() {
    ip netns exec core tc qdisc del dev far root
    ip netns exec core tc qdisc add dev far root handle 1: "$@"
}
# read_counters: uptime in s, bytes of others that left the narrow link, bytes of others that entered
# the second hop, and bytes that left it; all in the namespace of `core`, for ever. It replaces its
# shell, which would hold the output of the script open
read_counters() {
    exec ip netns exec core bash -c '
        mkfifo /run/tmp/never
        exec 9<>/run/tmp/never
        at=/sys/class/net
        while read -r now _ </proc/uptime; do
            read -r narrow <$at/behind/statistics/tx_bytes
            read -r second <$at/behind/statistics/rx_bytes
            read -r left <$at/far/statistics/tx_bytes
            echo $now $narrow $second $left
            read -rt 0.01 -u 9
        done'
}
# measure OPTIONS...: prints the report, and then the readings of the counters during it
measure() {
    sleep 2
    read_counters >/run/tmp/counters 2>&1 &
    sleep 0.1
    ip netns exec near $LONGHAUL available $ADDRESS --forward "$@" --no-save --json --quiet
    echo
    cat /run/tmp/counters
}
