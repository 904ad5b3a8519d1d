//! Analyses the effect of bulk load on round trips, loss and other flows.
//!
//! Read in this order: [`load_conclusion`] (the entry: all conclusions from one run, and the verdict
//! on a scavenger), [`phase_probes`] (assignment of probes to phases, delays, recovery, the rise of the
//! RTT), [`flow_rates`] (goodput, and the share a competitor kept), [`load_findings`] (findings and
//! caveats), [`responsiveness`] (the test of the IETF draft).

mod flow_rates;
mod load_conclusion;
mod load_findings;
mod phase_probes;
mod responsiveness;

#[cfg(test)]
mod tests;

pub use load_conclusion::conclude_load;
pub use responsiveness::judge_direction;
