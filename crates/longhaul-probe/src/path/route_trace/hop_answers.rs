//! Accumulated answers of one hop.

use super::hop_prober::HopEcho;
use super::hop_silence::ProbeFate;
use longhaul_model::report::v1::path::HopReply;
use std::net::IpAddr;
use std::time::Duration;

/// Probes and answers of one hop.
#[derive(Debug, Clone, Default)]
pub(super) struct HopRecord {
    /// By address; the trace's own flow first.
    pub answers: Vec<(IpAddr, HopReply)>,
    /// One entry for each probe with a known outcome.
    pub outcomes: Vec<ProbeFate>,
    pub sent: u32,
    pub last_sent: Duration,
}

impl HopRecord {
    /// Adds an answer to those of its address.
    pub fn record_answer(&mut self, echo: &HopEcho) {
        let same = |known: &&mut (IpAddr, HopReply)| known.0 == echo.address;
        match self.answers.iter_mut().find(same) {
            None => self.answers.push((echo.address, echo.reply.clone())),
            Some((_, known)) => {
                known.rtts_ns.extend(&echo.reply.rtts_ns);
                for what in &echo.reply.rewritten {
                    if !known.rewritten.contains(what) {
                        known.rewritten.push(what.clone());
                    }
                }
            }
        }
    }
}
