//! The fault matrix on a model of TCP: each fault at 2, 40 and 172 ms, and what must be said of it.

mod model;

use longhaul_analysis::RunConclusion;
use longhaul_analysis::throughput::{conclude_throughput, format_verdict};
use longhaul_model::report::v1::analysis::{Limiter, ThroughputAnalysis};
use longhaul_model::report::v1::observation::{StreamSample, TcpReading, ThroughputObservation};
use longhaul_model::report::v1::plan::ThroughputPlan;
use model::{Setting, observe};

fn base(rtt_ms: f64) -> Setting {
    let (seconds, link_bps, queue_bytes) = match rtt_ms as u64 {
        2 => (5.0, 960e6, 500e3),
        40 => (8.0, 96e6, 500e3),
        _ => (15.0, 96e6, 2200e3),
    };
    Setting { rtt_ms, seconds, link_bps, queue_bytes, ..Setting::default() }
}

type Fault = (&'static str, Limiter, &'static str, fn(&mut Setting));

/// Name, verdict, finding, and how to make it.
const FAULTS: [Fault; 13] = [
    ("clean path", Limiter::PathCapacity, "healthy", |_| {}),
    ("small receive buffer", Limiter::ReceiveWindow, "receive_window", |s| {
        s.window_most = 65_536.0;
        s.receive_asked = Some(65_536);
    }),
    ("clipped receive buffer", Limiter::ReceiveWindow, "receive_window", |s| {
        s.window_most = 65_536.0;
        s.receive_asked = Some(262_144);
    }),
    ("small send buffer", Limiter::SendBuffer, "send_buffer", |s| {
        s.send_most = 80_000.0;
        s.send_asked = Some(65_536);
    }),
    ("slow reader", Limiter::Application, "receiver_application", |s| s.read_bps = 20e6),
    ("slow writer", Limiter::Application, "sender_application", |s| s.write_bps = 20e6),
    ("random loss", Limiter::Loss, "random_loss", |s| {
        s.loss = 0.002;
    }),
    ("policer", Limiter::Policer, "policer", |s| {
        s.policer = Some((20e6, 250e3));
    }),
    ("shaper", Limiter::Shaper, "shaper", |s| {
        s.shaper = Some(if s.rtt_ms < 10.0 { (100e6, 150e6) } else { (40e6, 20e6) });
    }),
    ("deep queue", Limiter::PathCapacity, "deep_queue", |s| {
        s.link_bps = 48e6;
        s.queue_bytes = 4e6;
    }),
    ("starved sender", Limiter::CpuSender, "cpu_sender", |s| {
        s.starved_sender_bps = Some(30e6);
    }),
    ("starved receiver", Limiter::CpuReceiver, "cpu_receiver", |s| {
        s.starved_receiver_bps = Some(30e6);
    }),
    ("too short a run", Limiter::Ramp, "short_run", |s| {
        s.total_bytes = match s.rtt_ms as u64 {
            2 => 200e3,
            40 => 400e3,
            _ => 1e6,
        };
    }),
];

fn plan(setting: &Setting) -> ThroughputPlan {
    let finite = |rate: f64| rate.is_finite().then_some(rate as u64);
    ThroughputPlan {
        receive_buffer_bytes: setting.receive_asked,
        send_buffer_bytes: setting.send_asked,
        write_rate_bps: finite(setting.write_bps),
        read_rate_bps: finite(setting.read_bps),
        ..ThroughputPlan::default()
    }
}

fn judge(setting: &Setting) -> RunConclusion<ThroughputAnalysis> {
    conclude_throughput(&plan(setting), &observe(setting))
}

fn told(conclusion: &RunConclusion<ThroughputAnalysis>) -> String {
    let causes: Vec<_> = conclusion.findings.iter().map(|f| f.cause.as_str()).collect();
    let shares: Vec<_> = conclusion
        .analysis
        .shares
        .iter()
        .take(3)
        .map(|s| format!("{} {:.2}", s.state, s.share_ratio))
        .collect();
    format!(
        "{} {causes:?} {shares:?} {:?}",
        conclusion.analysis.limited_by, conclusion.analysis.goodput_bps
    )
}

#[test]
fn every_fault_is_named_at_every_round_trip_time() {
    let mut wrong = Vec::new();
    for (name, limiter, cause, make) in FAULTS {
        for rtt_ms in [2.0, 40.0, 172.0] {
            for seed in 1..=3 {
                let mut setting = Setting { seed, ..base(rtt_ms) };
                make(&mut setting);
                let conclusion = judge(&setting);
                let named = conclusion.findings.iter().any(|f| f.cause == cause);
                if conclusion.analysis.limited_by != limiter || !named {
                    wrong.push(format!("{name} at {rtt_ms} ms ({seed}): {}", told(&conclusion)));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_fault_never_looks_healthy_and_a_clean_path_always_does() {
    for (name, _, _, make) in FAULTS {
        for rtt_ms in [2.0, 40.0, 172.0] {
            let mut setting = base(rtt_ms);
            make(&mut setting);
            let healthy = judge(&setting).findings.iter().any(|f| f.cause == "healthy");
            assert_eq!(healthy, name == "clean path", "{name} at {rtt_ms} ms");
        }
    }
}

#[test]
fn an_old_kernel_gives_fewer_verdicts_and_no_wrong_ones() {
    for (name, limiter, _, make) in FAULTS {
        for rtt_ms in [2.0, 40.0, 172.0] {
            let mut setting = Setting { old_kernel: true, ..base(rtt_ms) };
            make(&mut setting);
            let conclusion = judge(&setting);
            let said = conclusion.analysis.limited_by;
            assert!(
                said == limiter || said == Limiter::Unknown,
                "{name} at {rtt_ms} ms: {}",
                told(&conclusion)
            );
            assert!(conclusion.caveats.iter().any(|c| c.code == "missing_counters"), "{name}");
        }
    }
}

/// Makes the sender's thread wait for a core during 40 % of each of so many of ten intervals.
fn keep_host_busy(observation: &mut ThroughputObservation, tenths: usize) {
    let (mut waited_us, mut before_us) = (0, 0);
    for (number, sample) in observation.streams[0].sender.samples.iter_mut().enumerate() {
        if number % 10 < tenths {
            waited_us += (sample.at_us - before_us) * 4 / 10;
        }
        before_us = sample.at_us;
        sample.core_wait_us = Some(waited_us);
    }
}

#[test]
fn a_busy_host_lowers_the_confidence_and_beyond_a_bound_leaves_the_limiter_unknown() {
    let setting = base(40.0);
    let judge_with = |tenths: usize| {
        let mut observation = observe(&setting);
        keep_host_busy(&mut observation, tenths);
        conclude_throughput(&plan(&setting), &observation)
    };
    let is_told_busy = |conclusion: &RunConclusion<ThroughputAnalysis>| {
        conclusion
            .caveats
            .iter()
            .any(|caveat| caveat.code == "busy_host" && caveat.text.starts_with("Cannot tell"))
    };
    let (idle, busier, busy) = (judge_with(0), judge_with(3), judge_with(8));
    assert_eq!(idle.analysis.limited_by, Limiter::PathCapacity, "{}", told(&idle));
    assert_eq!(busier.analysis.limited_by, Limiter::PathCapacity, "{}", told(&busier));
    let ratio = busier.analysis.confidence_ratio / idle.analysis.confidence_ratio;
    assert!((ratio - 0.7).abs() < 0.1, "{ratio}");
    assert_eq!(busy.analysis.limited_by, Limiter::Unknown, "{}", told(&busy));
    assert!(is_told_busy(&busy) && !is_told_busy(&busier) && !is_told_busy(&idle));
    assert!(!busy.findings.iter().any(|found| found.cause == "healthy"), "{}", told(&busy));
}

#[test]
fn a_failed_stream_is_a_caveat_once_with_its_end_and_its_reason() {
    let setting = base(20.0);
    let mut observation = observe(&setting);
    observation.streams[0].receiver.error = Some("connection reset".to_owned());
    let conclusion = conclude_throughput(&plan(&setting), &observation);
    let failed = conclusion.caveats.iter().filter(|caveat| caveat.code == "stream_failed");
    let texts: Vec<&str> = failed.map(|caveat| caveat.text.as_str()).collect();
    assert_eq!(texts, ["Stream 0 ended early at the receiver: connection reset"]);
}

#[test]
fn a_buffer_that_nobody_asked_for_is_not_called_clipped() {
    let setting = Setting { send_most: 80_000.0, send_asked: Some(65_536), ..base(2.0) };
    let conclusion = conclude_throughput(&ThroughputPlan::default(), &observe(&setting));
    let found = conclusion
        .findings
        .iter()
        .find(|f| f.cause == "send_buffer")
        .expect("the buffer is too small, whoever chose it");
    assert!(found.summary.contains("chosen by longhaul"), "{}", found.summary);
    let codes: Vec<_> = conclusion.caveats.iter().map(|c| &c.code).collect();
    assert!(!codes.iter().any(|c| *c == "buffer_clipped"), "{codes:?}");
}

#[test]
fn a_clipped_buffer_is_told_with_its_numbers_and_the_command_for_the_right_host() {
    let setting = Setting {
        rtt_ms: 160.0,
        link_bps: 10e6,
        window_most: 65_536.0,
        receive_asked: Some(262_144),
        seconds: 15.0,
        ..base(172.0)
    };
    let conclusion = judge(&setting);
    assert_eq!(conclusion.analysis.limited_by, Limiter::ReceiveWindow, "{}", told(&conclusion));
    let found = conclusion.findings.iter().find(|f| f.cause == "receive_window").unwrap();
    for part in [
        "256 KiB",
        "64 KiB",
        "131072",
        "net.core.rmem_max",
        "not measured yet",
        "160 ms",
        "3.277 Mbit/s",
        "far",
    ] {
        assert!(found.summary.contains(part), "{part} is not in: {}", found.summary);
    }
    assert_eq!(found.advice[0].place, "receiver");
    let command = found.advice[0].command.as_deref().unwrap();
    assert_eq!(command, "sysctl -w net.core.rmem_max=262144", "what was asked");
    let clipped = conclusion.caveats.iter().filter(|c| c.code == "buffer_clipped");
    assert_eq!(clipped.count(), 1, "one for the one buffer that matters");
    let line = format_verdict(&conclusion.analysis);
    assert!(line.starts_with("Limited by the receive window: "), "{line}");
    assert!(line.contains("64 KiB") && line.contains("160 ms"), "{line}");
}

#[test]
fn a_round_trip_within_one_host_bounds_no_window() {
    let setting = Setting { write_bps: 20e6, ..base(2.0) };
    let mut observation = observe(&setting);
    for (idle_rtt_us, bounded) in [(2_000, true), (1, false)] {
        observation.idle_rtt_us = Some(idle_rtt_us);
        let conclusion = conclude_throughput(&plan(&setting), &observation);
        let windows = [Limiter::ReceiveWindow, Limiter::SendBuffer];
        let bounds = &conclusion.analysis.bounds;
        let some = bounds.iter().any(|bound| windows.contains(&bound.limiter));
        assert_eq!(some, bounded, "{bounds:?}");
        assert_eq!(conclusion.analysis.limited_by, Limiter::Application);
    }
}

#[test]
fn of_two_limiters_the_first_has_its_remedy_and_the_second_the_rate_that_it_then_allows() {
    let setting = Setting {
        loss: 2e-4,
        window_most: 131_072.0,
        receive_asked: Some(131_072),
        seconds: 30.0,
        ..base(40.0)
    };
    let conclusion = judge(&setting);
    let [first, both] = &conclusion.findings[..] else { panic!("{}", told(&conclusion)) };
    assert_eq!((first.cause.as_str(), both.cause.as_str()), ("random_loss", "two_limiters"));
    assert!(!first.advice.is_empty() && both.advice.is_empty());
    let next = "without packet loss, the receive window limits at about 26.21 Mbit/s";
    assert!(both.summary.ends_with(next), "{}", both.summary);
}

/// Watches the sender of a window that grows back from a loss before the watch: 270 segments of 150 ms, and
/// 0.6 more every 100 ms.
fn watch_growing_window(seconds: u64) -> ThroughputObservation {
    const MSS: u64 = 1448;
    let setting = Setting { rtt_ms: 150.0, seconds: 1.0, ..Setting::default() };
    let mut observation = observe(&setting);
    let (mut bytes, mut samples) = (0, Vec::new());
    for number in 0..seconds * 10 {
        let window = (270 + number * 6 / 10) * MSS;
        bytes += window * 2 / 3;
        let tcp = TcpReading {
            rtt_us: 150_100,
            rtt_min_us: Some(150_050),
            mss_bytes: MSS,
            cwnd_bytes: window,
            ssthresh_bytes: Some(270 * MSS),
            unacked_bytes: window,
            bytes_acked: Some(bytes),
            unsent_bytes: Some(50 * MSS),
            receive_window_limited_us: Some(0),
            send_buffer_limited_us: Some(0),
            ..TcpReading::default()
        };
        let at_us = number * 100_000;
        let send_buffer_ratio = Some(0.5);
        samples.push(StreamSample {
            at_us,
            bytes,
            send_buffer_ratio,
            tcp: Some(tcp),
            ..StreamSample::default()
        });
    }
    observation.elapsed_us = seconds * 1_000_000;
    observation.idle_rtt_us = None;
    let stream = &mut observation.streams[0];
    stream.sender.congestion_control = Some("cubic".to_owned());
    stream.sender.samples = samples;
    stream.receiver.samples.clear();
    for end in [&mut stream.sender, &mut stream.receiver] {
        (end.bytes, end.duration_us) = (bytes, seconds * 1_000_000);
    }
    observation
}

#[test]
fn a_watch_that_is_too_short_for_the_cycle_of_a_window_says_how_long_to_watch() {
    let mut plan = plan(&base(172.0));
    plan.interval_us = 100_000;
    let conclusion = conclude_throughput(&plan, &watch_growing_window(8));
    assert_eq!(conclusion.analysis.limited_by, Limiter::Unknown, "{}", told(&conclusion));
    let found = conclusion.caveats.iter().find(|caveat| caveat.code == "short_watch");
    // K of RFC 9438 for 270 / 0.7 segments is 6.6 s.
    let text = found.map(|caveat| caveat.text.as_str()).unwrap_or_default();
    assert!(text.contains("takes 7 s to grow back: watch for 34 s"), "{:?}", conclusion.caveats);
}

#[test]
fn a_pausing_reader_is_the_limit_although_the_bursts_of_its_sender_fill_the_path() {
    let mut plan = plan(&base(172.0));
    plan.interval_us = 100_000;
    let conclude = |paused_window_bytes: u64| {
        let mut observation = watch_growing_window(10);
        let samples = observation.streams[0].sender.samples.iter_mut();
        for (number, tcp) in samples.filter_map(|sample| sample.tcp.as_mut()).enumerate() {
            let is_paused = number % 5 == 4;
            tcp.peer_window_bytes = Some(if is_paused { paused_window_bytes } else { 1 << 20 });
            tcp.rtt_us = 240_000;
        }
        conclude_throughput(&plan, &observation).analysis.limited_by
    };
    assert_eq!(conclude(1 << 20), Limiter::PathCapacity);
    assert_eq!(conclude(1 << 17), Limiter::Application);
}

#[test]
fn a_path_that_delivers_more_than_a_stream_reaches_is_not_full_whatever_the_rtt() {
    let mut plan = plan(&base(172.0));
    plan.interval_us = 100_000;
    let conclude = |delivery_ratio: f64| {
        let mut observation = watch_growing_window(10);
        let samples = observation.streams[0].sender.samples.iter_mut();
        for tcp in samples.filter_map(|sample| sample.tcp.as_mut()) {
            let rate_bps = tcp.cwnd_bytes as f64 * 2.0 / 3.0 * 80.0;
            tcp.delivery_bps = Some((rate_bps * delivery_ratio) as u64);
            tcp.rtt_us = 240_000;
        }
        conclude_throughput(&plan, &observation).analysis.limited_by
    };
    assert_eq!(conclude(1.0), Limiter::PathCapacity);
    assert_ne!(conclude(1.2), Limiter::PathCapacity);
}
