//! Whatever is observed, a conclusion comes out, and it is consistent with itself: readings may be
//! missing, run backwards, repeat, or be absurdly large.

use longhaul_analysis::throughput::{conclude_throughput, format_verdict};
use longhaul_model::report::v1::analysis::ThroughputAnalysis;
use longhaul_model::report::v1::observation::{
    BothEnds, CoreUsage, EndObservation, HostFacts, HostInterface, ObservedStream, SocketBuffer,
    StreamEnd, StreamSample, TcpOptions, TcpReading, ThroughputObservation, UdpCounts,
};
use longhaul_model::report::v1::plan::{RunTransport, ThroughputPlan};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

/// Mostly plausible numbers, sometimes zero, sometimes the greatest there is.
fn number() -> BoxedStrategy<u64> {
    prop_oneof![
        6 => 0u64..20_000_000,
        2 => 0u64..4,
        1 => Just(u64::MAX),
        1 => any::<u64>(),
    ]
    .boxed()
}

fn tcp() -> impl Strategy<Value = TcpReading> {
    let plain = (number(), number(), number(), number(), number(), 0u8..6);
    let optional = vec(of(number()), 12);
    (plain, optional).prop_map(|(plain, o)| TcpReading {
        rtt_us: plain.0,
        cwnd_bytes: plain.1,
        unacked_bytes: plain.2,
        retransmitted_segments: plain.3,
        mss_bytes: plain.4,
        ca_state: plain.5,
        ssthresh_bytes: o[0],
        rtt_min_us: o[1],
        bytes_acked: o[2],
        unsent_bytes: o[3],
        receive_window_limited_us: o[4],
        send_buffer_limited_us: o[5],
        peer_window_bytes: o[6],
        own_window_bytes: o[7],
        timeout_us: o[8],
        data_segments_out: o[9],
        segments_in: o[10],
        dsack_duplicates: o[11],
        ..TcpReading::default()
    })
}

fn sample() -> impl Strategy<Value = StreamSample> {
    let plain = (number(), number(), number());
    (plain, of(number()), of(number()), of(number()), of(tcp())).prop_map(
        |(plain, cpu_us, core_wait_us, queue_bytes, tcp)| StreamSample {
            at_us: plain.0,
            bytes: plain.1,
            blocked_us: plain.2,
            cpu_us,
            core_wait_us,
            queue_bytes,
            // The threads of other programs are not observed, but their sockets' memory is.
            send_buffer_ratio: cpu_us.is_none().then_some(0.7),
            tcp,
        },
    )
}

/// Half of the ends have samples in order, as a real one has; the others are chaos.
fn end() -> impl Strategy<Value = StreamEnd> {
    let samples = (vec(sample(), 0..40), any::<bool>()).prop_map(|(mut samples, ordered)| {
        if ordered {
            let mut at: Vec<u64> = samples.iter().map(|s| s.at_us % 20_000_000).collect();
            let mut bytes: Vec<u64> = samples.iter().map(|s| s.bytes % 1_000_000_000).collect();
            at.sort_unstable();
            bytes.sort_unstable();
            for (sample, (at_us, bytes)) in samples.iter_mut().zip(at.into_iter().zip(bytes)) {
                (sample.at_us, sample.bytes) = (at_us, bytes);
            }
        }
        samples
    });
    let buffer = of((of(number()), number(), number()).prop_map(|b| SocketBuffer {
        asked_bytes: b.0,
        granted_bytes: b.1,
        stored_bytes: b.2,
    }));
    let options = of(any::<[bool; 4]>().prop_map(|o| TcpOptions {
        timestamps: o[0],
        sack: o[1],
        window_scaling: o[2],
        ecn: o[3],
        send_window_shift: None,
        receive_window_shift: None,
    }));
    let udp = of((number(), number(), of(number())).prop_map(|u| UdpCounts {
        datagrams: u.0,
        lost: u.1,
        jitter_ns: u.2,
        ..UdpCounts::default()
    }));
    let cc = prop_oneof![Just(None), Just(Some(String::from("bbr")))];
    let plain = (number(), number(), number(), of(number()));
    (plain, samples, buffer, options, udp, cc).prop_map(
        |(plain, samples, buffer, options, udp, congestion_control)| StreamEnd {
            bytes: plain.0,
            started_us: plain.1,
            duration_us: plain.2,
            cpu_us: plain.3,
            samples,
            send_buffer: buffer,
            receive_buffer: buffer,
            options,
            udp,
            congestion_control,
            ..StreamEnd::default()
        },
    )
}

fn host() -> impl Strategy<Value = EndObservation> {
    let triple = of([number(), number(), number()].prop_map(|t| t));
    (triple, of(number()), number(), number()).prop_map(|(memory, speed_bps, grown, time)| {
        EndObservation {
            host: HostFacts {
                tcp_rmem_bytes: memory,
                tcp_wmem_bytes: memory,
                interface: Some(HostInterface { speed_bps, ..HostInterface::default() }),
                ..HostFacts::default()
            },
            cycles: speed_bps,
            cores: vec![CoreUsage { elapsed_us: time, steal_us: grown, ..CoreUsage::default() }],
            protocol: [(String::from("TcpExt.PruneCalled"), grown)].into(),
            interface: [(String::from("wan0.rx_dropped"), grown)].into(),
            ..EndObservation::default()
        }
    })
}

fn observation() -> impl Strategy<Value = ThroughputObservation> {
    let streams = vec((end(), end()), 0..4);
    let plain = (number(), of(number()), of(number()));
    (plain, streams, host(), host()).prop_map(|(plain, streams, sender, receiver)| {
        ThroughputObservation {
            forward: true,
            elapsed_us: plain.0,
            idle_rtt_us: plain.1,
            clock_error_us: plain.2,
            same_host: false,
            same_boot: None,
            streams: streams
                .into_iter()
                .zip(0..)
                .map(|((sender, receiver), index)| ObservedStream { index, sender, receiver })
                .collect(),
            ends: BothEnds { sender, receiver },
            reverse: None,
        }
    })
}

fn plan() -> impl Strategy<Value = ThroughputPlan> {
    let udp = of(number());
    (vec(of(number()), 6), udp, number()).prop_map(|(o, udp, interval_us)| ThroughputPlan {
        warm_up_us: o[0],
        send_buffer_bytes: o[1],
        receive_buffer_bytes: o[2],
        pacing_bps: o[3],
        write_rate_bps: o[4],
        read_rate_bps: o[5],
        transport: udp.map_or(RunTransport::Tcp, |rate_bps| RunTransport::Udp { rate_bps }),
        interval_us,
        ..ThroughputPlan::default()
    })
}

fn check(analysis: &ThroughputAnalysis) {
    let sum: f64 = analysis.shares.iter().map(|s| s.share_ratio).sum();
    assert!((sum - 1.0).abs() < 1e-6, "shares sum to {sum}");
    assert!(analysis.shares.iter().all(|s| s.share_ratio > 0.0));
    assert!((0.0..=1.0).contains(&analysis.confidence_ratio));
    assert!(analysis.bounds.is_sorted_by_key(|b| b.rate_bps));
    if let Some([low, high]) = analysis.goodput_interval_bps {
        let goodput = analysis.goodput_bps.unwrap();
        assert!(low <= goodput && goodput <= high);
    }
    if let Some(rtt) = analysis.rtt_us {
        assert!(rtt.min <= rtt.mean && rtt.mean <= rtt.max);
    }
    if let Some(span) = analysis.steady {
        assert!(span.from_us < span.to_us);
    }
    assert!(!format_verdict(analysis).is_empty());
}

proptest! {
    #[test]
    fn any_observation_has_a_consistent_conclusion(
        plan in plan(),
        forward in observation(),
        reverse in of(observation()),
    ) {
        let both = ThroughputObservation { reverse: reverse.map(Box::new), ..forward };
        let conclusion = conclude_throughput(&plan, &both);
        check(&conclusion.analysis);
        prop_assert_eq!(conclusion.analysis.reverse.is_some(), both.reverse.is_some());
        if let Some(reverse) = &conclusion.analysis.reverse {
            check(reverse);
        }
        for finding in &conclusion.findings {
            prop_assert!((0.0..=1.0).contains(&finding.confidence_ratio));
            prop_assert!(!finding.cause.is_empty() && !finding.summary.is_empty());
        }
        prop_assert_eq!(conclude_throughput(&plan, &both), conclusion);
    }
}
