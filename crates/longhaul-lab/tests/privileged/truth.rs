//! The lab's truth, proved by iperf3 and ping, on each backend and without root.

use crate::harness::{Lab, Outcome, Test, json_in};
use longhaul_lab::runtime::Backend;
use serde_json::Value;

pub const TESTS: &[Test] = &[
    ("round trips are those of the path, by ping", round_trips),
    (
        "a TCP transfer runs at the goodput limit, by iperf3",
        goodput,
    ),
    (
        "the bottleneck carries its rate, by the device's counters",
        device_rate,
    ),
    (
        "random loss is within its binomial interval, by iperf3",
        loss,
    ),
    (
        "routers answer by name from their place in the path",
        routers,
    ),
];

const IPERF3: &str = "iperf3 -s -p 5201";
/// IPv4 and TCP with timestamps in 1500 bytes, 1538 on the wire, at 100 Mbit/s.
const GOODPUT_LIMIT_BPS: f64 = 100e6 * 1448.0 / 1538.0;
const RTT_MS: f64 = 20.0;

/// TUN, packet sockets, and packet sockets without root.
const WAYS: [(Backend, bool); 3] = [
    (Backend::Tun, false),
    (Backend::Packet, false),
    (Backend::Packet, true),
];

fn plain(backend: Backend, unprivileged: bool) -> Lab<'static> {
    Lab {
        path: "plain.toml",
        sets: &[],
        far: IPERF3,
        far_port: Some(5201),
        backend,
        unprivileged,
    }
}

fn round_trips() {
    for (backend, unprivileged) in WAYS {
        for family in ["-4", "-6"] {
            let words = ["ping", family, "-n", "-q", "-c", "20", "-i", "0.05", "far"];
            let outcome = plain(backend, unprivileged).run(&words);
            assert_eq!(outcome.code, 0, "{}\n{}", outcome.out, outcome.err);
            let summary = outcome.out.split("mdev = ").nth(1).expect("ping's summary");
            let least: f64 = summary
                .split('/')
                .next()
                .and_then(|ms| ms.parse().ok())
                .expect("ms");
            let most = RTT_MS * 1.005 + 0.5;
            assert!(
                (RTT_MS..most).contains(&least),
                "{backend:?} {family}: {}",
                outcome.out
            );
        }
    }
}

fn goodput() {
    for (backend, unprivileged) in WAYS {
        let words = [
            "iperf3", "-J", "-C", "cubic", "-c", "far", "-O", "4", "-t", "5",
        ];
        let outcome = plain(backend, unprivileged).run_undisturbed(&words);
        assert_eq!(outcome.code, 0, "{}\n{}", outcome.out, outcome.err);
        let report: Value = serde_json::from_str(&outcome.out).expect("iperf3's report");
        let received = report["end"]["sum_received"]["bits_per_second"]
            .as_f64()
            .expect("a rate");
        let share = received / GOODPUT_LIMIT_BPS;
        assert!(
            (0.99..1.01).contains(&share),
            "{backend:?} {unprivileged}: {share} {}",
            outcome.err
        );
    }
}

/// Reads the near device's counter every tenth of a second while the far end sends.
const WINDOW: &str = "
    iperf3 -c far -C cubic -R -t 7 -i 0 > /dev/null &
    sleep 3
    for i in $(seq 30); do
        echo $(date +%s%N) $(cat /sys/class/net/wan0/statistics/rx_bytes)
        sleep 0.1
    done
    wait";

fn device_rate() {
    for (backend, unprivileged) in WAYS {
        let outcome = plain(backend, unprivileged).run_undisturbed(&["sh", "-c", WINDOW]);
        let numbers: Vec<f64> = outcome
            .out
            .split_whitespace()
            .flat_map(str::parse)
            .collect();
        let (readings, rest) = numbers.as_chunks::<2>();
        assert!(
            readings.len() == 30 && rest.is_empty(),
            "thirty readings: {} {}",
            outcome.out,
            outcome.err
        );
        // A packet socket's device counts the Ethernet header, and a super-packet has one.
        let share = 8e9 * steady_slope(readings) / (100e6 * 1500.0 / 1538.0);
        assert!(
            (0.99..1.01).contains(&share),
            "{backend:?} {unprivileged}: {share} {}",
            outcome.err
        );
    }
}

/// Bytes per nanosecond: the median over all pairs of readings that lie half the time apart.
///
/// On a busy machine the counter is sometimes read long after the clock; two readings alone
/// would be off by whatever came in between.
fn steady_slope(readings: &[[f64; 2]]) -> f64 {
    let half = readings.len() / 2;
    let mut slopes: Vec<f64> = (0..readings.len() - half)
        .flat_map(|from| (from + half..readings.len()).map(move |to| (from, to)))
        .map(|(from, to)| {
            let [from_ns, from_bytes] = readings[from];
            let [to_ns, to_bytes] = readings[to];
            (to_bytes - from_bytes) / (to_ns - from_ns)
        })
        .collect();
    slopes.sort_by(f64::total_cmp);
    slopes[slopes.len() / 2]
}

fn loss() {
    const LOSS: f64 = 0.01;
    const TRIES: u32 = 5;
    for backend in [Backend::Tun, Backend::Packet] {
        // What a receiver had no time for is no loss of the path: once more, then.
        let agreed = (0..TRIES).map(|_| lost_datagrams(backend)).find(|seen| {
            // Beyond the datagrams there are the control connection's few segments.
            (seen.dropped - seen.lost).abs() < 10.0
        });
        let seen = agreed.unwrap_or_else(|| {
            panic!("{backend:?}: of {TRIES} runs none lost what the path says it dropped")
        });
        // Four standard deviations: once in 16 000 runs outside by chance.
        let margin = 4.0 * (seen.sent * LOSS * (1.0 - LOSS)).sqrt();
        assert!(
            (seen.lost - seen.sent * LOSS).abs() < margin,
            "{backend:?}: {} of {}",
            seen.lost,
            seen.sent
        );
    }
}

struct Datagrams {
    sent: f64,
    /// As iperf3 counts them.
    lost: f64,
    /// By the path, as its truth has it.
    dropped: f64,
}

fn lost_datagrams(backend: Backend) -> Datagrams {
    let lab = Lab {
        sets: &["hops.2.forward.loss=1 %"],
        ..plain(backend, false)
    };
    let truth_path = std::env::temp_dir().join(format!("lab-truth-{}", std::process::id()));
    let words = [
        "iperf3", "-J", "-u", "-b", "15M", "-l", "1000", "-c", "far", "-t", "10",
    ];
    let mut command = lab.command(&words);
    let outcome = Outcome::of(command.env("LONGHAUL_LAB_TRUTH", &truth_path));
    let report: Value = serde_json::from_str(&outcome.out).expect("iperf3's report");
    let sum = &report["end"]["sum"];
    let truth = json_in(&truth_path);
    std::fs::remove_file(&truth_path).expect("the truth file");
    let drops = &truth["routes"][0]["hops"][1]["forward"]["drops"];
    assert_eq!(drops["loss"], drops["total"], "{drops}");
    Datagrams {
        sent: sum["packets"].as_f64().expect("packets"),
        lost: sum["lost_packets"].as_f64().expect("lost packets"),
        dropped: drops["loss"].as_f64().expect("the truth's loss"),
    }
}

fn routers() {
    let script = "ping -n -c 1 -t 1 far; ping -n -6 -c 1 -t 2 far; ping -n -4 -c 1 r1.example.net";
    let outcome = plain(Backend::Tun, false).run(&["sh", "-c", script]);
    let expected = [
        "From 10.77.1.1",
        "From fd77:0:0:1::2",
        "64 bytes from 10.77.1.1",
    ];
    for text in expected {
        assert!(
            outcome.out.contains(text),
            "{text} is missing in {}",
            outcome.out
        );
    }
}
