//! Plans, cells and reports to conclude from.

use crate::scan::{Conclusion, Slot, conclude, failed, order};
use crate::throughput;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::observation::{self, End, Ends, Host};
use longhaul_model::report::v1::plan::{self, Direction};
use longhaul_model::report::v1::scan::{Budget, Cell, Observation, Plan, Search, Setting};
use longhaul_model::report::v1::{Kind, Party, Run, SCHEMA, Throughput};

pub fn grid(windows: &[Option<u64>], streams: &[u32], direction: Direction, repeats: u32) -> Plan {
    Plan {
        search: Search::Grid,
        direction,
        windows_bytes: windows.to_vec(),
        streams: streams.to_vec(),
        congestion_controls: vec![None],
        repeats,
        seed: 11,
        present: None,
        budget: Budget {
            probes: 1000,
            time_us: 3_600_000_000,
            bytes: None,
        },
        probe: plan::Plan::default(),
    }
}

pub fn guided() -> Plan {
    Plan {
        search: Search::Guided,
        ..grid(&[], &[], Direction::Forward, 1)
    }
}

/// A cell that the path's capacity held, 160 ms away.
pub fn cell(slot: &Slot, bps: f64) -> Cell {
    let at_us = u64::from(slot.index) * 10_000_000;
    let setting = slot.setting.clone();
    let blank = failed(
        slot.index,
        setting,
        slot.forward,
        slot.sentinel,
        at_us,
        9_000_000,
        String::new(),
    );
    Cell {
        error: None,
        goodput_bps: Some(bps as u64),
        limited_by: Some(Limiter::PathCapacity),
        confidence_ratio: Some(0.9),
        idle_rtt_us: Some(160_000),
        ..blank
    }
}

/// The whole grid, by what each setting gives in a direction at a place of the order.
pub fn measure(plan: &Plan, bps: impl Fn(&Setting, bool, usize) -> f64) -> Conclusion {
    let slots = order(plan);
    let cells = slots
        .iter()
        .enumerate()
        .map(|(place, slot)| cell(slot, bps(&slot.setting, slot.forward, place)));
    let observation = Observation {
        cells: cells.collect(),
    };
    conclude(plan, &observation, &[], "grid_done")
}

/// A run's report, of which only the hosts matter; the receiver's ceilings are as given.
pub fn report(forward: bool, sender: &str, receiver: &str, ceiling_bytes: u64) -> Throughput {
    let end = |name: &str, most: u64| End {
        host: Host {
            name: name.to_owned(),
            rmem_max_bytes: Some(most),
            wmem_max_bytes: Some(1 << 24),
            tcp_rmem_bytes: Some([4096, 131_072, most]),
            tcp_wmem_bytes: Some([4096, 16_384, 1 << 24]),
            ..Host::default()
        },
        ..End::default()
    };
    let plan = plan::Plan::default();
    let observation = observation::Observation {
        forward,
        elapsed_us: 0,
        idle_rtt_us: None,
        clock_error_us: None,
        same_host: false,
        same_boot: None,
        streams: Vec::new(),
        ends: Ends {
            sender: end(sender, 1 << 24),
            receiver: end(receiver, ceiling_bytes),
        },
        reverse: None,
    };
    let concluded = throughput::conclude(&plan, &observation);
    Throughput {
        schema: SCHEMA.to_owned(),
        kind: Kind::Throughput,
        run: Run {
            id: String::from("01"),
            started_at: String::from("2026-11-22T02:00:00Z"),
            duration_us: 0,
            longhaul: String::new(),
            initiator: Party::default(),
            responder: Party::default(),
            part_of: None,
        },
        plan,
        observation,
        analysis: concluded.analysis,
        findings: concluded.findings,
        caveats: concluded.caveats,
    }
}
