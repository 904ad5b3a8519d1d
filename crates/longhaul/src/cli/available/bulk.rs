//! A far end without longhaul: bulk TCP to whatever takes it there (docs/methods, the fallback).

use super::progress::Progress;
use super::{Seen, micros};
use crate::fail::Fail;
use longhaul_model::report::v1::available::{Observation, Plan, Probing};
use longhaul_model::report::v1::{Caveat, Party};
use longhaul_probe::probing::{BulkAsked, bulk};
use longhaul_probe::throughput::Target;
use std::time::Duration;

pub fn measure(
    target: &Target,
    port: u16,
    plan: Plan,
    progress: &mut Progress,
) -> Result<Seen, Fail> {
    progress.budget(&plan);
    let asked = BulkAsked {
        port,
        most_time: Duration::from_micros(plan.most_time_us),
        most_bytes: plan.most_bytes,
        dscp: plan.dscp,
    };
    let outcome = bulk(target, &asked, &mut |sample| {
        let bytes = super::progress::size(sample.bytes);
        progress.line(&format!("forward: {bytes} by TCP"));
    })?;
    let last = outcome.samples.last().copied();
    let mut caveats = vec![Caveat::new(
        "uncooperative",
        "the far end runs no longhaul: these are the share and the lower bound that one TCP \
         connection gives, not an available bandwidth",
    )];
    if let Some(why) = outcome.ended_early {
        caveats.push(Caveat::new("ended_early", why));
    }
    Ok(Seen {
        observation: Observation {
            idle_rtt_us: outcome.connect_rtt.map(micros),
            forward: Some(Probing {
                probe_bytes: last.map_or(0, |sample| sample.bytes),
                duration_us: last.map_or(0, |sample| sample.at_us),
                tcp_samples: outcome.samples,
                ..Probing::default()
            }),
            reverse: None,
        },
        plan,
        initiator: outcome.initiator,
        responder: Party {
            host: target.host.clone(),
            address: Some(outcome.address.ip().to_string()),
            ..Party::default()
        },
        caveats,
    })
}
