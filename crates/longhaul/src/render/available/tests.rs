use super::*;
use crate::render::page::WIDTH;
use longhaul_model::report::v1::available::{Analysis, Mode, Observation, Verdict};
use longhaul_model::report::v1::{Kind, Party, Run, SCHEMA};

fn party(host: &str) -> Party {
    Party {
        host: host.to_owned(),
        ..Party::default()
    }
}

fn shown(estimate: Estimate) -> String {
    let available = Available {
        schema: SCHEMA.to_owned(),
        kind: Kind::Available,
        run: Run {
            id: "20260101T000000Z-abcdef".to_owned(),
            started_at: "2026-01-01T00:00:00Z".to_owned(),
            duration_us: 2_000_000,
            longhaul: "0.0.0".to_owned(),
            initiator: party("near"),
            responder: party("far"),
            part_of: None,
        },
        plan: Plan {
            mode: Mode::Quick,
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
        observation: Observation::default(),
        analysis: Analysis {
            version: 1,
            forward: Some(estimate),
            reverse: None,
        },
        findings: Vec::new(),
        caveats: Vec::new(),
    };
    anstream::adapter::strip_str(&report(&available)).to_string()
}

fn estimated() -> Estimate {
    let method = |name: &str, bps, weight_ratio, invalid: Option<&str>| Method {
        name: name.to_owned(),
        available_bps: Some(bps),
        interval_bps: Some([bps - 5_000_000, bps + 5_000_000]),
        weight_ratio,
        invalid: invalid.map(str::to_owned),
    };
    Estimate {
        verdict: Verdict::Estimated,
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
        bucket: Some(Bucket {
            kind: BucketKind::Shaper,
            peak_bps: 119_000_000,
            sustained_bps: 59_000_000,
            sustained_interval_bps: None,
            burst_bytes: 4800,
            burst_interval_bytes: None,
            confidence_ratio: 0.9,
        }),
        ..Estimate::default()
    }
}

#[test]
fn both_figures_stand_with_interval_layer_and_payload() {
    let text = shown(estimated());
    for part in [
        "130.0 Mbit/s of IP packets (127.0 to 133.0)",
        "91.00 Mbit/s of IP packets (85.00 to 97.00)",
        "87.85 Mbit/s",
        "empty queue: ",
        "weight 70 %",
        "does not count: too few trains",
        "up to 2 Gbit/s",
        "batches, 50 us apart",
        "a shaper",
        "first 4,800 bytes",
        "760 kB, 1.4 s",
    ] {
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(part), "{part} is not in\n{text}");
    }
    assert!(
        text.lines().all(|line| line.chars().count() <= WIDTH),
        "{text}"
    );
}

#[test]
fn what_cannot_be_told_is_said_and_no_number_stands_in_its_place() {
    for (verdict, part) in [
        (Verdict::SenderLimited, "no slower than the sender"),
        (Verdict::BeyondResolution, "too fast"),
        (Verdict::Disturbed, "cannot tell"),
        (Verdict::NoAnswer, "nothing arrived"),
    ] {
        let text = shown(Estimate {
            verdict,
            ..Estimate::default()
        });
        assert!(text.contains(part), "{text}");
        assert!(!text.contains("bit/s"), "{text}");
    }
    let least = shown(Estimate {
        verdict: Verdict::SenderLimited,
        capacity_bps: Some(3_000_000_000),
        ..Estimate::default()
    });
    assert!(least.contains("at least 3 Gbit/s"), "{least}");
}
