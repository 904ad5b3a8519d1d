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
            None => self.answers.push((echo.address, first_answer(echo))),
            Some((_, known)) => {
                known.rtts_ns.push(echo.rtt.as_nanos() as u64);
                for what in &echo.rewritten {
                    if !known.rewritten.contains(what) {
                        known.rewritten.push(what.clone());
                    }
                }
            }
        }
    }
}

/// Returns the record of the first answer of an address.
pub fn first_answer(echo: &HopEcho) -> HopReply {
    HopReply {
        address: echo.address.to_string(),
        rtts_ns: vec![echo.rtt.as_nanos() as u64],
        reply_ttl: echo.reply_ttl,
        quoted_ttl: echo.quoted_ttl,
        kind: echo.kind.as_str().to_owned(),
        mpls: echo.mpls.clone(),
        rewritten: echo.rewritten.clone(),
        ..HopReply::default()
    }
}
