//! Accumulated answers of one hop.

use super::judge::Fate;
use super::prober::HopEcho;
use longhaul_model::report::v1::path::Answer;
use std::net::IpAddr;
use std::time::Duration;

/// Probes and answers of one hop.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    /// By address; the trace's own flow first.
    pub answers: Vec<(IpAddr, Answer)>,
    /// One entry for each probe with a known outcome.
    pub fates: Vec<Fate>,
    pub sent: u32,
    pub last_sent: Duration,
}

impl Known {
    /// Adds an answer to those of its address.
    pub fn note(&mut self, echo: &HopEcho) {
        let same = |known: &&mut (IpAddr, Answer)| known.0 == echo.address;
        match self.answers.iter_mut().find(same) {
            None => self.answers.push((echo.address, answer(echo))),
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
pub(super) fn answer(echo: &HopEcho) -> Answer {
    Answer {
        address: echo.address.to_string(),
        name: None,
        autonomous_system: None,
        place: None,
        rtts_ns: vec![echo.rtt.as_nanos() as u64],
        reply_ttl: echo.reply_ttl,
        quoted_ttl: echo.quoted_ttl,
        kind: echo.kind.word().to_owned(),
        mpls: echo.mpls.clone(),
        rewritten: echo.rewritten.clone(),
    }
}
