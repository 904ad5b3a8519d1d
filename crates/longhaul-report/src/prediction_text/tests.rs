use super::*;
use longhaul_analysis::predict::predict_goodput;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::predict::{
    MeasuredSetting, PredictionHosts, PredictionObservation, PredictionPath,
};
use longhaul_model::report::v1::scan::TransferSetting;
use longhaul_model::report::v1::{ReportKind, RunInfo, RunParty, SCHEMA};

fn plan() -> PredictionPlan {
    PredictionPlan {
        path: PredictionPath {
            capacity_bps: 622_000_000,
            rtt_us: 172_000,
            mss_bytes: 1448,
            header_bytes: 52,
            origin: String::from("asked"),
        },
        hosts: PredictionHosts {
            auto_window_bytes: Some(3 << 20),
            granted_most_bytes: Some(8 << 20),
            processor_bps: None,
        },
        windows_bytes: vec![None, Some(64 << 10), Some(64 << 20)],
        streams: vec![1, 2, 3, 4, 8, 16, 32, 64],
        congestion_controls: vec![String::from("cubic"), String::from("bbr")],
        loss_ratios: vec![0.0, 1e-6],
        buffers_bytes: vec![4 << 20],
        time_us: 30_000_000,
        scan_id: None,
    }
}

fn observation() -> PredictionObservation {
    let setting = |window_bytes, streams| TransferSetting {
        window_bytes,
        streams,
        congestion_control: Some(String::from("cubic")),
        pacing_bps: None,
    };
    let measured =
        |setting, goodput_bps, limited_by| MeasuredSetting { setting, goodput_bps, limited_by };
    PredictionObservation {
        measured: vec![
            measured(setting(Some(64 << 10), 1), 1_500_000, Limiter::ReceiveWindow),
            measured(setting(Some(64 << 10), 8), 24_000_000, Limiter::ReceiveWindow),
            measured(setting(None, 4), 200_000_000, Limiter::Loss),
        ],
    }
}

fn sample() -> PredictionReport {
    let (plan, observation) = (plan(), observation());
    let place = |host: &str| RunParty { host: host.to_owned(), ..RunParty::default() };
    PredictionReport {
        schema: SCHEMA.to_owned(),
        kind: ReportKind::Predict,
        run: RunInfo {
            id: String::from("20260101T000000Z-000000"),
            started_at: String::from("2026-01-01T00:00:00Z"),
            duration_us: 1,
            longhaul: String::from("0.1.0"),
            initiator: place("sender"),
            responder: place("receiver"),
            part_of: None,
            environment: None,
        },
        analysis: predict_goodput(&plan, &observation),
        plan,
        observation,
        findings: Vec::new(),
        caveats: Vec::new(),
    }
}

#[test]
fn the_page_fits_and_says_what_the_disagreements_mean() {
    let text = build_prediction_document(&sample()).text();
    for line in text.lines() {
        let plain = anstream::adapter::strip_str(line).to_string();
        assert!(plain.chars().count() <= 80, "{plain}");
    }
    let plain = anstream::adapter::strip_str(&text).to_string();
    for part in [
        "cubic, no loss",
        "bbr, 0.0001",
        "32 str.",
        "clipped windows",
        "rank correlation",
        "64 MiB",
    ] {
        assert!(plain.contains(part), "{part}:\n{plain}");
    }
    assert!(plain.contains("8 x 64 KiB") && !plain.contains("8 x 64 KiB cubic,"), "{plain}");
}
