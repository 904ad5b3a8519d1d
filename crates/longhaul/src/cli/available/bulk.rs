//! Fallback for hosts without longhaul: bulk TCP to any service that accepts it, then ICMP echoes
//! (docs/methods/available-bandwidth.md).

use super::progress::Progress;
use super::{Seen, micros};
use crate::fail::Fail;
use crate::render::available::size;
use longhaul_model::report::v1::available::{Observation, Plan, Probing, Purpose, Train};
use longhaul_model::report::v1::path::{Echoes, Protocol, RoundTrips};
use longhaul_model::report::v1::{Caveat, Party};
use longhaul_probe::path::{EchoAsked, echoes};
use longhaul_probe::probing::{BulkAsked, BulkOutcome, bulk};
use longhaul_probe::throughput::Target;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Echoes that measure how often the queues of the round trip are empty: 50 per second, because
/// many hosts answer no faster.
const ECHOES: RoundTrips = RoundTrips {
    protocol: Protocol::Icmp,
    probes: 100,
    interval_us: 20_000,
    packet_bytes: 64,
    timeout_us: 1_000_000,
};
/// The time to drain the queues after the bulk transfer, before the echoes.
const REST: Duration = Duration::from_millis(500);

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
        progress.line(&format!("forward: {} by TCP", size(sample.bytes)));
    })?;
    let mut caveats = Vec::new();
    if let Some(why) = &outcome.ended_early {
        caveats.push(Caveat::new("ended_early", why));
    }
    progress.line("round trips by ICMP");
    let trains = idle(target, &outcome, &mut caveats);
    Ok(seen(target, plan, outcome, trains, caveats))
}

fn seen(
    target: &Target,
    plan: Plan,
    outcome: BulkOutcome,
    trains: Vec<Train>,
    caveats: Vec<Caveat>,
) -> Seen {
    let last = outcome.samples.last().copied();
    Seen {
        observation: Observation {
            idle_rtt_us: outcome.connect_rtt.map(micros),
            forward: Some(Probing {
                probe_bytes: last.map_or(0, |sample| sample.bytes) + super::bytes(&trains),
                duration_us: last.map_or(0, |sample| sample.at_us),
                trains,
                tcp_samples: outcome.samples,
                ..Probing::default()
            }),
            ..Observation::default()
        },
        plan,
        initiator: outcome.initiator,
        responder: Party {
            host: target.host.clone(),
            address: Some(outcome.address.ip().to_string()),
            ..Party::default()
        },
        caveats,
    }
}

/// Measures round trips and returns them as a train whose one-way delays are round-trip times.
fn idle(target: &Target, outcome: &BulkOutcome, caveats: &mut Vec<Caveat>) -> Vec<Train> {
    std::thread::sleep(REST);
    let asked = EchoAsked {
        destination: outcome.address.ip(),
        source: target.bind.address,
        device: target.bind.device.clone(),
        port: None,
        round_trips: ECHOES,
    };
    match echoes(&asked, &AtomicBool::new(false), &mut |_| {}) {
        Ok(echoes) => vec![train(&echoes)],
        Err(error) => {
            let text = format!("round trips by ICMP could not be measured: {error}");
            caveats.push(Caveat::new("no_echoes", text));
            Vec::new()
        }
    }
}

fn train(echoes: &Echoes) -> Train {
    let sent = |at_us: u64| at_us.saturating_mul(1000);
    let all = &echoes.echoes;
    Train {
        index: 0,
        purpose: Purpose::Idle,
        packet_bytes: echoes.packet_bytes,
        rate_bps: None,
        micro_burst_packets: 1,
        sent_at_ns: 0,
        sent_ns: all.iter().map(|echo| sent(echo.at_us)).collect(),
        received_at_ns: 0,
        received_ns: all
            .iter()
            .map(|echo| Some(sent(echo.at_us).saturating_add(echo.rtt_ns?)))
            .collect(),
        clock_step_ns: None,
        spoilt: None,
    }
}
