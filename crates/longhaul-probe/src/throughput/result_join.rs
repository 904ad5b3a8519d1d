//! Joins the readings of both ends into one observation.
//!
//! Both engines stamp their samples on the common time line (the server's zero was computed from
//! the measured clock offset), so no times are shifted here. The result includes the bound of the
//! offset's error.

use crate::engine::{EngineResult as LocalEnd, reconcile_loss};
use crate::probe_error::describe_error_chain;
use crate::program_sanitizer::sanitize_program;
use crate::session::{ClockReading, ServerDirection, Session};
use crate::session_driver::SessionResults;
use crate::wire::{DirectionResult, IntervalCounters};
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::observation::{
    BothEnds, EndObservation, HostFacts, ObservedStream, StreamEnd, ThroughputObservation,
};
use longhaul_model::report::v1::plan::{RunDirection, RunTransport, StopCondition, ThroughputPlan};
use longhaul_model::units::{Bytes, format_duration};
use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

/// Joins the results of both ends; the error names what is missing.
///
/// # Errors
/// Results of a direction are missing, or no payload arrived.
pub fn join_results(
    plan: &ThroughputPlan,
    collected: SessionResults,
    mut far: BTreeMap<bool, ServerDirection>,
    session: &Session,
) -> Result<(ThroughputObservation, Vec<ReportCaveat>), String> {
    let mut caveats = Vec::new();
    let mut one_way = |forward: bool, local: Option<LocalEnd>| {
        let local = local.ok_or("no result from the engine of this end")?;
        let far = far.remove(&forward).and_then(convert_server_direction);
        let far = far.ok_or("no result from the server")?;
        Ok::<_, String>(join_direction(plan, forward, local, far, session, &mut caveats))
    };
    let observation = match plan.direction {
        RunDirection::Forward => one_way(true, collected.sender)?,
        RunDirection::Reverse => one_way(false, collected.receiver)?,
        RunDirection::Both => {
            let reverse = one_way(false, collected.receiver)?;
            let forward = one_way(true, collected.sender)?;
            ThroughputObservation { reverse: Some(Box::new(reverse)), ..forward }
        }
    };
    let moved = |o: &ThroughputObservation| o.ends.receiver.bytes > 0;
    if plan.transport == RunTransport::Tcp && !moved(&observation) {
        return Err("no payload arrived at the receiver".to_owned());
    }
    Ok((observation, caveats))
}

fn convert_server_direction(far: ServerDirection) -> Option<LocalEnd> {
    let DirectionResult { mut end, caveats, .. } = far.end?;
    end.program = end.program.map(sanitize_program);
    Some(LocalEnd { streams: far.streams, end, caveats })
}

fn join_direction(
    plan: &ThroughputPlan,
    forward: bool,
    local: LocalEnd,
    far: LocalEnd,
    session: &Session,
    caveats: &mut Vec<ReportCaveat>,
) -> ThroughputObservation {
    add_caveats(caveats, &local.caveats, "");
    add_caveats(caveats, &far.caveats, "server: ");
    let (sender, receiver) = if forward { (local, far) } else { (far, local) };
    let mut streams: Vec<ObservedStream> = sender
        .streams
        .into_iter()
        .zip(receiver.streams)
        .enumerate()
        .map(|(index, (sender, receiver))| ObservedStream { index: index as u32, sender, receiver })
        .collect();
    if plan.transport != RunTransport::Tcp {
        for stream in &mut streams {
            reconcile_loss(&stream.sender, &mut stream.receiver);
        }
    }
    let clock = session.clock();
    ThroughputObservation {
        forward,
        elapsed_us: payload_duration_us(&streams),
        idle_rtt_us: clock.map(|clock| clock.rtt.as_micros() as u64),
        clock_error_us: clock.map(|clock| clock.error().as_micros() as u64),
        same_host: session.same_host(),
        same_boot: session.same_boot(),
        streams,
        ends: BothEnds { sender: sender.end, receiver: receiver.end },
        reverse: None,
    }
}

/// A run as this end alone knows it.
pub struct OwnEndContext<'a> {
    pub plan: &'a ThroughputPlan,
    /// The server's name.
    pub server: &'a str,
    pub clock: Option<ClockReading>,
    pub idle_rtt: Option<Duration>,
    pub same_host: bool,
    pub same_boot: Option<bool>,
    /// The last counts that the server sent.
    pub server_counts: IntervalCounters,
}

/// Builds the observation of a run whose server did not report its results.
///
/// The bytes that arrived at the server are those that its kernel had acknowledged at the last
/// reading, and over UDP those of its last heartbeat. It sent at least what arrived here.
///
/// # Errors
/// No payload is known to have arrived.
pub fn observe_own_end(
    known: &OwnEndContext<'_>,
    collected: SessionResults,
) -> Result<ThroughputObservation, String> {
    let sent = collected.sender.map(|own| observe_own_direction(known, true, own));
    let received = collected.receiver.map(|own| observe_own_direction(known, false, own));
    let arrived = |seen: &ThroughputObservation| seen.ends.receiver.bytes > 0;
    match (sent, received) {
        (Some(sent), Some(received)) if arrived(&sent) || arrived(&received) => {
            Ok(ThroughputObservation { reverse: Some(Box::new(received)), ..sent })
        }
        (Some(only), None) | (None, Some(only)) if arrived(&only) => Ok(only),
        _ => Err("no payload arrived at the receiver".to_owned()),
    }
}

fn observe_own_direction(
    known: &OwnEndContext<'_>,
    forward: bool,
    own: LocalEnd,
) -> ThroughputObservation {
    let sent_bytes = own.end.bytes;
    let streams: Vec<ObservedStream> = own
        .streams
        .into_iter()
        .zip(0..)
        .map(|(own, index)| {
            let far = if forward {
                estimate_receiver(&own, sent_bytes, known.server_counts)
            } else {
                estimate_sender(&own)
            };
            let (sender, receiver) = if forward { (own, far) } else { (far, own) };
            ObservedStream { index, sender, receiver }
        })
        .collect();
    let count = |read: fn(&ObservedStream) -> u64| streams.iter().map(read).sum();
    let far_bytes = count(|it| it.receiver.bytes);
    let host = HostFacts { name: known.server.to_owned(), ..HostFacts::default() };
    let far = EndObservation { host, bytes: far_bytes, ..EndObservation::default() };
    let (sender, receiver) = if forward { (own.end, far) } else { (far, own.end) };
    ThroughputObservation {
        forward,
        elapsed_us: payload_duration_us(&streams),
        idle_rtt_us: known.idle_rtt.map(|rtt| rtt.as_micros() as u64),
        clock_error_us: known.clock.map(|clock| clock.error().as_micros() as u64),
        same_host: known.same_host,
        same_boot: known.same_boot,
        streams,
        ends: BothEnds { sender, receiver },
        reverse: None,
    }
}

/// Returns the peer's end of a stream on which this end sends. Of the last heartbeat, `counts`, it
/// has the share of its bytes among the `sent_bytes` of all streams.
fn estimate_receiver(own: &StreamEnd, sent_bytes: u64, counts: IntervalCounters) -> StreamEnd {
    let mut readings = own.samples.iter().rev();
    let acknowledged = readings.find_map(|it| {
        let until_us = it.at_us.saturating_sub(own.started_us);
        Some((until_us, it.tcp.as_ref()?.bytes_acked?))
    });
    let (duration_us, bytes) = acknowledged.unwrap_or_else(|| {
        let share = own.bytes as f64 / sent_bytes.max(1) as f64;
        let heartbeat = counts.received_bytes.unwrap_or(0) as f64;
        (counts.elapsed_us, (heartbeat * share) as u64)
    });
    StreamEnd { bytes: bytes.min(own.bytes), duration_us, ..estimate_sender(own) }
}

/// Returns the peer's end of a stream on which this end receives.
fn estimate_sender(own: &StreamEnd) -> StreamEnd {
    StreamEnd {
        local: own.peer.clone(),
        peer: own.local.clone(),
        bytes: own.bytes,
        started_us: own.started_us,
        duration_us: own.duration_us,
        ..StreamEnd::default()
    }
}

/// Returns the caveats of a run that ended before its planned end, or whose end was left to its
/// user: `stopped` by the user, or `lost` with the error of the peer.
pub fn early_end_caveats(
    plan: &ThroughputPlan,
    observation: &ThroughputObservation,
    stopped: bool,
    lost: Option<&dyn Error>,
) -> Vec<ReportCaveat> {
    let back = observation.reverse.as_ref().map_or(0, |reverse| reverse.elapsed_us);
    let time = |us: u64| format_duration(Duration::from_micros(us));
    let elapsed = time(observation.elapsed_us.max(back) / 100_000 * 100_000);
    let planned = match plan.stop {
        StopCondition::TimeUs(us) => time(us),
        StopCondition::Bytes(bytes) => Bytes(bytes).to_string(),
        StopCondition::Blocks(blocks) => format!("{blocks} blocks"),
    };
    let mut caveats = Vec::new();
    if stopped && !plan.until_stopped {
        let text = format!("interrupted after {elapsed} of {planned}");
        caveats.push(ReportCaveat::new(ReportCaveat::INTERRUPTED, text));
    }
    match lost {
        Some(error) => {
            let text = format!(
                "the run ended after {elapsed} of {planned}: {}; the counts of the server are \
                 missing, and what arrived there is estimated from what this host knows",
                describe_error_chain(error)
            );
            caveats.push(ReportCaveat::new(ReportCaveat::PEER_LOST, text));
        }
        None if plan.until_stopped && !stopped => {
            let text = format!("the server grants runs of at most {planned}");
            caveats.push(ReportCaveat::new(ReportCaveat::TIME_GRANTED, text));
        }
        None => {}
    }
    caveats
}

fn add_caveats(all: &mut Vec<ReportCaveat>, more: &[ReportCaveat], whose: &str) {
    for caveat in more {
        let caveat = ReportCaveat::new(&caveat.code, format!("{whose}{}", caveat.text));
        if !all.contains(&caveat) {
            all.push(caveat);
        }
    }
}

/// Returns the time from the first payload byte at the receiver to the last.
pub fn payload_duration_us(streams: &[ObservedStream]) -> u64 {
    let span = payload_span(streams.iter().map(|stream| &stream.receiver));
    span.map_or(0, |(first, last)| last.saturating_sub(first))
}

/// Returns the times of the first and last payload byte at these ends, in microseconds of the run's
/// time line.
pub fn payload_span<'s>(ends: impl Iterator<Item = &'s StreamEnd>) -> Option<(u64, u64)> {
    let used = ends.filter(|end| end.bytes > 0);
    let spans = used.map(|end| {
        let last = end.started_us.saturating_add(end.duration_us);
        (end.started_us, last)
    });
    spans.reduce(|all, own| (all.0.min(own.0), all.1.max(own.1)))
}
