//! Compares longhaul on iperf3's protocol with iperf3 itself, in speed and CPU cost.
//!
//! - [`interop_pairs`]: the clients and servers, and their command lines
//! - [`interop_run`]: one run of a pair: payload that arrived, and the cost of each end
//! - [`interop_cells`]: the pairs of a cell in turn, and the tables
//! - [`setup_time`]: the setup time of many streams over a long path
//!
//! In each row one end stays and the other changes. Payload is counted by the kernel at the
//! receiver (by the device for TCP, by the delivered datagrams for UDP), in a window inside the
//! run; CPU time is that of each end's accounting group in the same window.
//!
//! A gate is missed if longhaul is behind one of the two iperf3s in the same turns, by the interval
//! of the median of their ratios. Wrong when: the machine has other work; an asterisk marks cells
//! without an undisturbed run. All of it takes about 20 minutes; more turns (`--turns N`) narrow
//! the intervals.

mod interop_cells;
mod interop_pairs;
mod interop_run;
mod setup_time;

use super::testbed::{AllowedControl, TestNetwork};
use crate::BenchOutcome;
use crate::bench_cases::read_cases;
use interop_pairs::{InteropPrograms, LoadScenario};
use std::path::Path;

/// The default number of turns, the fewest that give an interval of the ratios.
const TURNS: usize = 6;

/// Runs the tables whose title and the rows whose load contain `only`.
pub fn run_all(longhaul: &Path, only: &str, turns: Option<u64>) -> Result<BenchOutcome, String> {
    let programs = InteropPrograms::find(longhaul)?;
    let scenarios: Vec<LoadScenario> = read_cases("load")?;
    let mut outcome = BenchOutcome::default();
    let _allowed = AllowedControl::new()?;
    let turns = turns.map_or(TURNS, |turns| turns as usize);
    for bed in [TestNetwork::loopback()?, TestNetwork::veth(1500)?] {
        let whole_bed = bed.name.contains(only);
        let loads = scenarios.iter();
        let loads: Vec<_> = loads.filter(|load| whole_bed || load.name.contains(only)).collect();
        if !loads.is_empty() {
            outcome.add(interop_cells::measure_cells(&bed, &programs, &loads, turns));
        }
    }
    if setup_time::TITLE.contains(only) {
        outcome.add(setup_time::measure_setup(longhaul, &programs)?);
    }
    if outcome.text.is_empty() {
        return Err(format!("no table or load of this bench holds `{only}`"));
    }
    Ok(outcome)
}
