use super::*;
use crate::text_page::WIDTH;
use longhaul_model::report::v1::available::{
    AvailableAnalysis, AvailableMode, AvailableObservation, EstimateVerdict,
};
use longhaul_model::report::v1::{ReportKind, RunInfo, RunParty, SCHEMA};

fn party(host: &str) -> RunParty {
    RunParty { host: host.to_owned(), ..RunParty::default() }
}

fn shown(estimate: AvailableEstimate) -> String {
    let available = AvailableReport {
        schema: SCHEMA.to_owned(),
        kind: ReportKind::Available,
        run: RunInfo {
            id: "20260101T000000Z-abcdef".to_owned(),
            started_at: "2026-01-01T00:00:00Z".to_owned(),
            duration_us: 2_000_000,
            longhaul: "0.0.0".to_owned(),
            initiator: party("near"),
            responder: party("far"),
            part_of: None,
            environment: None,
        },
        plan: AvailablePlan {
            mode: AvailableMode::Quick,
            forward: true,
            reverse: false,
            packet_bytes: 1500,
            most_bytes: 64_000_000,
            most_time_us: 3_000_000,
            seed: 1,
            dscp: None,
            uncooperative: None,
            shaper_time_us: None,
        },
        observation: AvailableObservation::default(),
        analysis: AvailableAnalysis { version: 1, forward: Some(estimate), reverse: None },
        findings: Vec::new(),
        caveats: Vec::new(),
    };
    build_available_document(&available).unstyled_text()
}

fn estimated() -> AvailableEstimate {
    let method = |name: &str, bps, weight_ratio, invalid: Option<&str>| MethodEstimate {
        name: name.to_owned(),
        available_bps: Some(bps),
        interval_bps: Some([bps - 5_000_000, bps + 5_000_000]),
        weight_ratio,
        invalid: invalid.map(str::to_owned),
    };
    AvailableEstimate {
        verdict: EstimateVerdict::Estimated,
        capacity_bps: Some(130_000_000),
        capacity_interval_bps: Some([127_000_000, 133_000_000]),
        available_bps: Some(91_000_000),
        available_interval_bps: Some([85_000_000, 97_000_000]),
        methods: vec![
            method("empty_queue", 90_000_000, 0.7, None),
            method("rate_sweep", 95_000_000, 0.0, Some("too few trains")),
        ],
        batching_ns: Some(50_000),
        resolution_bps: Some(2_000_000_000),
        probe_bytes: 760_000,
        duration_us: 1_400_000,
        bucket: Some(TokenBucketEstimate {
            kind: TokenBucketKind::Shaper,
            peak_bps: 119_000_000,
            sustained_bps: 59_000_000,
            sustained_interval_bps: None,
            burst_bytes: 4800,
            burst_interval_bytes: None,
            confidence_ratio: 0.9,
        }),
        ..AvailableEstimate::default()
    }
}

#[test]
fn both_figures_stand_with_interval_layer_and_payload() {
    let text = shown(estimated());
    for part in [
        "130.0 Mbit/s at the IP layer (127.0 to 133.0)",
        "91.00 Mbit/s at the IP layer (85.00 to 97.00)",
        "87.85 Mbit/s",
        "empty queue: ",
        "weight 70 %",
        "not used: too few trains",
        "limit of these hosts: 2 Gbit/s",
        "batches, 50 µs apart",
        "shaper (queues the excess)",
        "first 4,800 bytes",
        "760 kB, 1.4 s",
    ] {
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(part), "{part} is not in\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
}

#[test]
fn what_cannot_be_told_is_said_and_no_number_stands_in_its_place() {
    for (verdict, part) in [
        (EstimateVerdict::SenderLimited, "could not overrun the path"),
        (EstimateVerdict::BeyondResolution, "too fast"),
        (EstimateVerdict::Disturbed, "no estimate"),
        (EstimateVerdict::NoAnswer, "nothing arrived"),
    ] {
        let text = shown(AvailableEstimate { verdict, ..AvailableEstimate::default() });
        assert!(text.contains(part), "{text}");
        assert!(!text.contains("bit/s"), "{text}");
    }
    let least = shown(AvailableEstimate {
        verdict: EstimateVerdict::SenderLimited,
        capacity_bps: Some(3_000_000_000),
        ..AvailableEstimate::default()
    });
    assert!(least.contains("≥ 3 Gbit/s"), "{least}");
}
