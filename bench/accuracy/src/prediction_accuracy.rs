//! The round model and the analytic bounds against results of a packet simulator.
//!
//! The simulator's results are frozen in `fixtures/ns3`, with the script that made them.
//! Units: ratios of the simulator's goodput. Wrong when: the simulator differs from a kernel; the
//! lab's scans show it.

use super::{AccuracyRow, ErrorTally};
use longhaul_analysis::predict::predict_goodput;
use longhaul_model::report::v1::predict::{
    PredictionCell, PredictionHosts, PredictionObservation, PredictionPath, PredictionPlan,
};

const CELLS: &str = include_str!("../../../fixtures/ns3/cells.tsv");
/// Headers of IPv4 and TCP with timestamps, and those of the simulator's link.
const HEADER_BYTES: u32 = 54;
const MSS_BYTES: u32 = 1448;

/// One result of the simulator, with the prediction for it.
struct SimulatorCell {
    #[cfg(test)]
    name: &'static str,
    goodput_bps: f64,
    predicted: PredictionCell,
}

/// Evaluates the round model, and the lowest analytic bound alone.
pub fn evaluate_prediction() -> [AccuracyRow; 2] {
    let references = load_simulator_cells();
    let row = |method: &str, of: fn(&PredictionCell) -> f64| {
        let errors = references.iter();
        ErrorTally::of(errors.map(|r| Some((of(&r.predicted) / r.goodput_bps - 1.0).abs())))
            .row(method)
    };
    [
        row("prediction, round model against ns-3", |c| c.goodput_bps as f64),
        row("prediction, least bound against ns-3", |c| {
            c.bounds.first().map_or(0.0, |b| b.rate_bps as f64)
        }),
    ]
}

fn load_simulator_cells() -> Vec<SimulatorCell> {
    let lines = CELLS.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(parse_simulator_cell).collect()
}

fn parse_simulator_cell(line: &'static str) -> Option<SimulatorCell> {
    let fields: Vec<&str> = line.split('\t').collect();
    let whole = |place: usize| fields.get(place)?.parse::<u64>().ok();
    let plan = PredictionPlan {
        path: PredictionPath {
            capacity_bps: whole(2)?,
            rtt_us: whole(3)?,
            mss_bytes: MSS_BYTES,
            header_bytes: HEADER_BYTES,
            origin: String::from("ns-3"),
        },
        hosts: PredictionHosts::default(),
        windows_bytes: vec![Some(whole(4)?)],
        streams: vec![u32::try_from(whole(5)?).ok()?],
        congestion_controls: vec![(*fields.get(1)?).to_owned()],
        loss_ratios: vec![fields.get(6)?.parse().ok()?],
        buffers_bytes: vec![whole(7)?],
        time_us: whole(8)?,
        scan_id: None,
    };
    Some(SimulatorCell {
        #[cfg(test)]
        name: fields[0],
        goodput_bps: whole(10)? as f64,
        predicted: predict_goodput(&plan, &PredictionObservation::default()).cells.pop()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_round_model_meets_the_simulator() {
        let lines = CELLS.lines().filter(|line| !line.starts_with('#')).count();
        let references = load_simulator_cells();
        assert_eq!(references.len(), lines, "every line is read");
        for r in &references {
            let ratio = r.predicted.goodput_bps as f64 / r.goodput_bps;
            println!("{:36} {:5.2} {:?}", r.name, ratio, r.predicted.limited_by);
        }
        for r in &references {
            let ratio = r.predicted.goodput_bps as f64 / r.goodput_bps;
            assert!((0.8..=1.2).contains(&ratio), "{}: {ratio:.2}", r.name);
        }
        let [round, bound] = evaluate_prediction();
        assert!(round.median_error_ratio <= 0.04, "{round:?}");
        assert!(round.p90_error_ratio <= 0.12, "{round:?}");
        assert!(bound.median_error_ratio >= round.median_error_ratio, "{bound:?}");
    }
}
