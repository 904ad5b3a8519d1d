//! Analyses the effect of bulk load on round trips, loss and other flows.
//!
//! Read in this order: [`load_conclusion`] (the entry: all conclusions from one run), [`phase_probes`]
//! (assignment of probes to phases, delays, recovery), [`rtt_rise`] (amount, confidence and direction),
//! [`flow_rates`] (goodput, and the share a competitor kept), [`scavenger_verdict`] (verdict on a
//! scavenger), [`load_findings`], [`load_caveats`].

mod flow_rates;
mod load_caveats;
mod load_conclusion;
mod load_findings;
mod phase_probes;
mod rtt_rise;
mod scavenger_verdict;

#[cfg(test)]
mod tests;

pub use load_conclusion::conclude_load;
