use super::super::{audit_host, list_rules};
use super::{DARESBURY, FAST, VERY_FAST, observed, plan, verdict_on};
use longhaul_model::report::v1::host::{AuditGrade, AuditObservation};
use std::collections::BTreeSet;

/// A rule, judged for a path with readings that are good and with readings that are not.
struct Row {
    rule: &'static str,
    path: (u64, u64),
    good: &'static [(&'static str, &'static str)],
    wanting: &'static [(&'static str, &'static str)],
    grade: AuditGrade,
    /// In the text or the first remedy.
    says: &'static str,
}

const fn row(
    rule: &'static str,
    path: (u64, u64),
    good: &'static [(&'static str, &'static str)],
    wanting: &'static [(&'static str, &'static str)],
    (grade, says): (AuditGrade, &'static str),
) -> Row {
    Row { rule, path, good, wanting, grade, says }
}

use AuditGrade::{Advice, Limits};

const TABLE: &[Row] = &[
    row(
        "receive_autotuning",
        DARESBURY,
        &[("net.ipv4.tcp_rmem", "4096\t131072\t6291456")],
        &[("net.ipv4.tcp_rmem", "4096\t131072\t131072")],
        (Limits, "sysctl -w net.ipv4.tcp_rmem=\"4096 131072 524288\""),
    ),
    row(
        "send_autotuning",
        DARESBURY,
        &[("net.ipv4.tcp_wmem", "4096 16384 4194304")],
        &[("net.ipv4.tcp_wmem", "4096 16384 262144")],
        (Advice, "sysctl -w net.ipv4.tcp_wmem=\"4096 16384 524288\""),
    ),
    row(
        "receive_buffer_max",
        DARESBURY,
        &[("net.core.rmem_max", "4194304")],
        &[("net.core.rmem_max", "65536")],
        (Limits, "sysctl -w net.core.rmem_max=524288"),
    ),
    row(
        "send_buffer_max",
        FAST,
        &[("net.core.wmem_max", "268435456")],
        &[("net.core.wmem_max", "212992")],
        (Limits, "sysctl -w net.core.wmem_max=268435456"),
    ),
    row(
        "option_memory",
        VERY_FAST,
        &[("net.core.optmem_max", "1048576")],
        &[("net.core.optmem_max", "131072")],
        (Advice, "optmem_max=1048576"),
    ),
    row(
        "receive_moderation",
        FAST,
        &[("net.ipv4.tcp_moderate_rcvbuf", "1"), ("net.ipv4.tcp_rmem", "4096 131072 6291456")],
        &[("net.ipv4.tcp_moderate_rcvbuf", "0"), ("net.ipv4.tcp_rmem", "4096 131072 6291456")],
        (Limits, "tcp_moderate_rcvbuf=1"),
    ),
    row(
        "window_scaling",
        DARESBURY,
        &[("net.ipv4.tcp_window_scaling", "1")],
        &[("net.ipv4.tcp_window_scaling", "0")],
        (Limits, "at most 3.277 Mbit/s per stream"),
    ),
    row(
        "timestamps",
        FAST,
        &[("net.ipv4.tcp_timestamps", "1")],
        &[("net.ipv4.tcp_timestamps", "0")],
        (Advice, "tcp_timestamps=1"),
    ),
    row(
        "selective_acknowledgement",
        FAST,
        &[("net.ipv4.tcp_sack", "1")],
        &[("net.ipv4.tcp_sack", "0")],
        (Advice, "tcp_sack=1"),
    ),
    row(
        "duplicate_acknowledgement",
        FAST,
        &[("net.ipv4.tcp_dsack", "1")],
        &[("net.ipv4.tcp_dsack", "0")],
        (Advice, "tcp_dsack=1"),
    ),
    row(
        "loss_by_time",
        FAST,
        &[("net.ipv4.tcp_recovery", "1")],
        &[("net.ipv4.tcp_recovery", "4")],
        (Advice, "tcp_recovery=5"),
    ),
    row(
        "idle_restart",
        FAST,
        &[("net.ipv4.tcp_slow_start_after_idle", "0")],
        &[("net.ipv4.tcp_slow_start_after_idle", "1")],
        (Advice, "tcp_slow_start_after_idle=0"),
    ),
    row(
        "saved_metrics",
        FAST,
        &[("net.ipv4.tcp_no_metrics_save", "1")],
        &[("net.ipv4.tcp_no_metrics_save", "0")],
        (Advice, "tcp_no_metrics_save=1"),
    ),
    row(
        "congestion_control",
        FAST,
        &[("net.ipv4.tcp_congestion_control", "cubic")],
        &[
            ("net.ipv4.tcp_congestion_control", "reno"),
            ("net.ipv4.tcp_available_congestion_control", "reno cubic bbr"),
        ],
        (Advice, "tcp_congestion_control=cubic"),
    ),
    row(
        "queueing_discipline",
        FAST,
        &[("interface.qdisc", "mq"), ("interface.qdisc.leaves", "fq")],
        &[("interface.qdisc", "pfifo_fast"), ("interface.name", "eth0")],
        (Advice, "tc qdisc replace dev eth0 root fq"),
    ),
    row(
        "default_queueing_discipline",
        FAST,
        &[("net.core.default_qdisc", "fq")],
        &[("net.core.default_qdisc", "fq_codel")],
        (Advice, "default_qdisc=fq"),
    ),
    row(
        "flow_ceiling",
        FAST,
        &[("interface.qdisc", "fq")],
        &[("interface.qdisc", "fq"), ("interface.qdisc.maxrate_bps", "2000000000")],
        (Limits, "DEV limits each stream to 2 Gbit/s"),
    ),
    row(
        "transmit_queue",
        FAST,
        &[("interface.txqueuelen", "1000"), ("interface.qdisc", "fq")],
        &[("interface.txqueuelen", "1000"), ("interface.qdisc", "pfifo_fast")],
        (
            Advice,
            "1000 packets last 1.2 ms at this rate, less than a burst of a large window ip link set dev DEV txqueuelen 10000",
        ),
    ),
    row(
        "receive_backlog",
        FAST,
        &[("net.core.netdev_max_backlog", "30000")],
        &[("net.core.netdev_max_backlog", "1000")],
        (Advice, "netdev_max_backlog=30000"),
    ),
    row(
        "carrier",
        FAST,
        &[("interface.carrier", "on")],
        &[("interface.carrier", "off")],
        (Limits, "no carrier"),
    ),
    row(
        "interface_speed",
        FAST,
        &[("interface.speed_bps", "10000000000")],
        &[("interface.speed_bps", "1000000000")],
        (Limits, "runs at 1 Gbit/s"),
    ),
    row(
        "mtu",
        FAST,
        &[("interface.mtu", "9000")],
        &[("interface.mtu", "1500")],
        (Advice, "mtu 9000"),
    ),
    row(
        "mtu_probing",
        FAST,
        &[("net.ipv4.tcp_mtu_probing", "0"), ("interface.mtu", "1500")],
        &[("net.ipv4.tcp_mtu_probing", "0"), ("interface.mtu", "9000")],
        (Advice, "tcp_mtu_probing=1"),
    ),
    row(
        "mtu_discovery",
        FAST,
        &[("net.ipv4.ip_no_pmtu_disc", "0")],
        &[("net.ipv4.ip_no_pmtu_disc", "1")],
        (Advice, "ip_no_pmtu_disc=0"),
    ),
    row(
        "route",
        FAST,
        &[("route.interface", "eth0"), ("interface.mtu", "9000")],
        &[("route.interface", "eth0"), ("route.window", "65536")],
        (Limits, "a window of 64 KiB"),
    ),
    row(
        "offloads",
        FAST,
        &[
            ("interface.feature.tso", "on"),
            ("interface.feature.gso", "on"),
            ("interface.feature.gro", "on"),
        ],
        &[
            ("interface.feature.tso", "off"),
            ("interface.feature.gso", "on"),
            ("interface.feature.gro", "off"),
        ],
        (Advice, "tso on gro on"),
    ),
    row(
        "receive_ring",
        FAST,
        &[("interface.ring.rx", "4096"), ("interface.ring.rx_max", "4096")],
        &[("interface.ring.rx", "512"), ("interface.ring.rx_max", "4096")],
        (Advice, "rx 4096"),
    ),
    row(
        "transmit_ring",
        FAST,
        &[("interface.ring.tx", "8192"), ("interface.ring.tx_max", "16384")],
        &[("interface.ring.tx", "512"), ("interface.ring.tx_max", "16384")],
        (Advice, "tx 8192"),
    ),
    row(
        "coalescing",
        FAST,
        &[("interface.coalesce.rx_usecs", "50")],
        &[("interface.coalesce.rx_usecs", "0")],
        (Advice, "adaptive-rx on"),
    ),
    row(
        "pause_frames",
        VERY_FAST,
        &[("interface.pause.rx", "on"), ("interface.pause.tx", "off")],
        &[("interface.pause.rx", "off"), ("interface.pause.tx", "off")],
        (Advice, "rx on tx on"),
    ),
    row(
        "governor",
        FAST,
        &[("cpu.governor", "performance")],
        &[("cpu.governor", "powersave"), ("cpu.governors", "performance powersave")],
        (Advice, "cpupower frequency-set -g performance"),
    ),
    row(
        "receive_queues",
        FAST,
        &[
            ("interface.channels.combined", "8"),
            ("interface.channels.combined_max", "63"),
            ("cpu.online", "8"),
        ],
        &[
            ("interface.channels.combined", "1"),
            ("interface.channels.combined_max", "63"),
            ("cpu.online", "8"),
        ],
        (Advice, "combined 8"),
    ),
    row(
        "interrupt_spread",
        FAST,
        &[
            ("interface.irq.count", "8"),
            ("interface.irq.cores", "8"),
            ("interface.irq.busiest_ratio", "0.2"),
            ("cpu.online", "8"),
        ],
        &[
            ("interface.irq.count", "8"),
            ("interface.irq.cores", "8"),
            ("interface.irq.busiest_ratio", "0.97"),
            ("cpu.online", "8"),
        ],
        (Advice, "8 interrupts may go to 8 of 8 cores"),
    ),
    row(
        "sibling_threads",
        VERY_FAST,
        &[("cpu.smt", "off")],
        &[("cpu.smt", "on")],
        (Advice, "one core"),
    ),
    row(
        "memory_node",
        FAST,
        &[("interface.numa_node", "0")],
        &[("interface.numa_node", "1"), ("interface.name", "ens1f0")],
        (Advice, "ens1f0 is on NUMA node 1"),
    ),
    row("iommu", FAST, &[("iommu", "DMA-FQ")], &[("iommu", "DMA DMA-FQ")], (Advice, "DMA DMA-FQ")),
    row(
        "pci_express",
        FAST,
        &[("interface.pci.speed_gtps", "8"), ("interface.pci.width", "8")],
        &[
            ("interface.pci.speed_gtps", "2.5"),
            ("interface.pci.width", "4"),
            ("interface.pci.speed_gtps_max", "8"),
            ("interface.pci.width_max", "8"),
        ],
        (Limits, "carry 7.2 Gbit/s"),
    ),
    row(
        "clock_source",
        FAST,
        &[("clock.source", "tsc")],
        &[("clock.source", "hpet"), ("clock.sources", "tsc hpet acpi_pm")],
        (Advice, "current_clocksource"),
    ),
    row(
        "clock_synchronised",
        FAST,
        &[("clock.synchronised", "on")],
        &[("clock.synchronised", "off")],
        (Advice, "not synchronised"),
    ),
    row(
        "connection_tracking",
        FAST,
        &[("conntrack", "off")],
        &[("conntrack", "on")],
        (Advice, "connections are tracked"),
    ),
    row(
        "connection_table",
        FAST,
        &[("conntrack.count", "100"), ("conntrack.max", "262144")],
        &[("conntrack.count", "250000"), ("conntrack.max", "262144")],
        (Advice, "250000 of 262144"),
    ),
    row(
        "softnet_drops",
        FAST,
        &[("softnet.dropped", "0"), ("softnet.processed", "1000000")],
        &[
            ("softnet.dropped", "12"),
            ("softnet.processed", "1000000"),
            ("net.core.netdev_max_backlog", "1000"),
        ],
        (Advice, "12 of 1000000"),
    ),
    row(
        "softnet_squeezed",
        FAST,
        &[("softnet.squeezed", "3"), ("softnet.processed", "1000000")],
        &[
            ("softnet.squeezed", "5000"),
            ("softnet.processed", "1000000"),
            ("net.core.netdev_budget", "300"),
        ],
        (Advice, "netdev_budget=600"),
    ),
];

#[test]
fn every_rule_knows_good_from_wanting_and_admits_what_it_cannot_see() {
    for row in TABLE {
        let plan = plan(row.path);
        let good = verdict_on(row.rule, &plan, &observed(row.good));
        assert_eq!(good.grade, AuditGrade::Good, "{good:?}");
        assert!(good.remedies.is_empty(), "{good:?}");
        let wanting = verdict_on(row.rule, &plan, &observed(row.wanting));
        assert_eq!(wanting.grade, row.grade, "{wanting:?}");
        let first = wanting.remedies.first();
        let command = first.and_then(|remedy| remedy.command.as_deref());
        let said = format!("{} {}", wanting.text, command.unwrap_or_default());
        assert!(said.contains(row.says), "{}: {said}", row.rule);
        assert!(first.is_some(), "{}: no remedy", row.rule);
        let absent = verdict_on(row.rule, &plan, &AuditObservation::default());
        assert_eq!(absent.grade, AuditGrade::Unknown, "{absent:?}");
    }
}

#[test]
fn every_rule_has_a_row() {
    let mut rows: BTreeSet<&str> = TABLE.iter().map(|row| row.rule).collect();
    // Its reading is a part of the host's description; the test below is its own.
    rows.insert("tcp_memory");
    let named: BTreeSet<&str> = list_rules().map(|rule| rule.name).collect();
    assert_eq!(rows, named);
    assert_eq!(TABLE.len() + 1, named.len());
}

#[test]
fn memory_of_all_streams_together_bounds_one() {
    let mut host = observed(&[("net.ipv4.tcp_mem", "1 2 3")]);
    let mut judged = |pressure: u64| {
        host.host.tcp_mem_bytes = Some([pressure / 2, pressure, pressure * 2]);
        verdict_on("tcp_memory", &plan(FAST), &host)
    };
    assert_eq!(judged(1 << 20).grade, AuditGrade::Limits);
    assert_eq!(judged(1 << 20).bound_bps, Some(83_886_080));
    assert_eq!(judged(200 << 20).grade, AuditGrade::Advice);
    assert_eq!(judged(1 << 30).grade, AuditGrade::Good);
}

#[test]
fn daresbury_is_bound_to_what_its_windows_carry() {
    let host = observed(&[
        ("net.ipv4.tcp_rmem", "4096 131072 131072"),
        ("net.ipv4.tcp_wmem", "4096 65536 131072"),
        ("net.core.rmem_max", "65536"),
        ("net.core.wmem_max", "4194304"),
    ]);
    let (analysis, findings, _) = audit_host(&plan(DARESBURY), &host);
    let limiting: Vec<(&str, Option<u64>)> = analysis
        .verdicts
        .iter()
        .take_while(|verdict| verdict.grade == AuditGrade::Limits)
        .map(|verdict| (verdict.rule.as_str(), verdict.bound_bps))
        .collect();
    // 64 KiB and 128 KiB in each 160 ms.
    let expected = [
        ("receive_autotuning", Some(3_276_800)),
        ("receive_buffer_max", Some(3_276_800)),
        ("send_autotuning", Some(6_553_600)),
    ];
    assert_eq!(limiting, expected);
    let causes: Vec<&str> = findings.iter().map(|f| f.cause.as_str()).collect();
    assert_eq!(causes, expected.map(|(rule, _)| rule));
}

#[test]
fn what_a_person_must_decide_has_no_name_to_be_written() {
    let host = observed(&[("interface.mtu", "1500"), ("interface.name", "eth0")]);
    let verdict = verdict_on("mtu", &plan(FAST), &host);
    let remedy = &verdict.remedies[0];
    assert_eq!((&remedy.name, &remedy.value), (&None, &None));
    assert_eq!(remedy.command.as_deref(), Some("ip link set dev eth0 mtu 9000"));
}

#[test]
fn a_buffer_that_takes_much_of_the_memory_is_said_to() {
    let host =
        observed(&[("net.ipv4.tcp_rmem", "4096 131072 6291456"), ("memory.total", "536870912")]);
    let verdict = verdict_on("receive_autotuning", &plan(VERY_FAST), &host);
    let text = &verdict.remedies[0].text;
    assert!(text.contains("this host has 512 MiB"), "{text}");
}

#[test]
fn a_path_beyond_the_widest_window_wants_streams() {
    let host = observed(&[("net.ipv4.tcp_rmem", "4096 131072 2147483647")]);
    // 400 Gbit/s × 100 ms: 5 GB in flight, and no window is wider than 1 GiB.
    let verdict = verdict_on("receive_autotuning", &plan((400_000_000_000, 100_000)), &host);
    assert_eq!(verdict.grade, AuditGrade::Limits);
    assert!(verdict.remedies[0].text.contains("5 streams"), "{verdict:?}");
    assert_eq!(verdict.remedies[0].name, None);
}

#[test]
fn bbr_paces_without_fq() {
    let host =
        observed(&[("interface.qdisc", "pfifo_fast"), ("net.ipv4.tcp_congestion_control", "bbr")]);
    let verdict = verdict_on("queueing_discipline", &plan(FAST), &host);
    assert_eq!(verdict.grade, AuditGrade::Good);
    assert!(verdict.text.contains("its own timers"));
}
