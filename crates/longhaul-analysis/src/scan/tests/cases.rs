//! Plans, cells and reports to conclude from.

use crate::scan::{ScanSlot, conclude_scan, order_cells};
use crate::{RunConclusion, throughput};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::observation::{BothEnds, EndObservation, HostFacts};
use longhaul_model::report::v1::plan::RunDirection;
use longhaul_model::report::v1::scan::{
    ScanAnalysis, ScanBudget, ScanCell, ScanObservation, ScanPlan, SearchMode, TransferSetting,
};
use longhaul_model::report::v1::{
    ReportKind, RunInfo, RunParty, SCHEMA, ThroughputReport, observation, plan,
};

pub fn grid(
    windows: &[Option<u64>],
    streams: &[u32],
    direction: RunDirection,
    repeats: u32,
) -> ScanPlan {
    ScanPlan {
        search: SearchMode::Grid,
        direction,
        windows_bytes: windows.to_vec(),
        streams: streams.to_vec(),
        congestion_controls: vec![None],
        repeats,
        seed: 11,
        present: None,
        budget: ScanBudget { probes: 1000, time_us: 3_600_000_000, bytes: None },
        probe: plan::ThroughputPlan::default(),
    }
}

pub fn guided() -> ScanPlan {
    ScanPlan { search: SearchMode::Guided, ..grid(&[], &[], RunDirection::Forward, 1) }
}

/// A cell that the path's capacity held, 160 ms away.
pub fn cell(slot: &ScanSlot, bps: f64) -> ScanCell {
    let at_us = u64::from(slot.index) * 10_000_000;
    let setting = slot.setting.clone();
    let blank = ScanCell {
        index: slot.index,
        setting,
        forward: slot.forward,
        sentinel: slot.sentinel,
        at_us,
        duration_us: 9_000_000,
        ..ScanCell::default()
    };
    ScanCell {
        goodput_bps: Some(bps as u64),
        limited_by: Some(Limiter::PathCapacity),
        confidence_ratio: Some(0.9),
        idle_rtt_us: Some(160_000),
        ..blank
    }
}

/// The whole grid, by what each setting gives in a direction at a place of the order.
pub fn measure(
    plan: &ScanPlan,
    bps: impl Fn(&TransferSetting, bool, usize) -> f64,
) -> RunConclusion<ScanAnalysis> {
    let slots = order_cells(plan);
    let cells = slots
        .iter()
        .enumerate()
        .map(|(place, slot)| cell(slot, bps(&slot.setting, slot.forward, place)));
    let observation = ScanObservation { cells: cells.collect() };
    conclude_scan(plan, &observation, &[], "grid_done")
}

/// A run's report, of which only the hosts matter; the receiver's ceilings are as given.
pub fn report(forward: bool, sender: &str, receiver: &str, ceiling_bytes: u64) -> ThroughputReport {
    let end = |name: &str, most: u64| EndObservation {
        host: HostFacts {
            name: name.to_owned(),
            rmem_max_bytes: Some(most),
            wmem_max_bytes: Some(1 << 24),
            tcp_rmem_bytes: Some([4096, 131_072, most]),
            tcp_wmem_bytes: Some([4096, 16_384, 1 << 24]),
            ..HostFacts::default()
        },
        ..EndObservation::default()
    };
    let plan = plan::ThroughputPlan::default();
    let observation = observation::ThroughputObservation {
        forward,
        elapsed_us: 0,
        idle_rtt_us: None,
        clock_error_us: None,
        same_host: false,
        same_boot: None,
        streams: Vec::new(),
        ends: BothEnds { sender: end(sender, 1 << 24), receiver: end(receiver, ceiling_bytes) },
        reverse: None,
    };
    let concluded = throughput::conclude_throughput(&plan, &observation);
    ThroughputReport {
        schema: SCHEMA.to_owned(),
        kind: ReportKind::Throughput,
        run: RunInfo {
            id: String::from("01"),
            started_at: String::from("2026-11-22T02:00:00Z"),
            duration_us: 0,
            longhaul: String::new(),
            initiator: RunParty::default(),
            responder: RunParty::default(),
            part_of: None,
            environment: None,
        },
        plan,
        observation,
        analysis: concluded.analysis,
        findings: concluded.findings,
        caveats: concluded.caveats,
    }
}
