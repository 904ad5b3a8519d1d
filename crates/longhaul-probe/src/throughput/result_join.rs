//! Joins the readings of both ends into one observation.
//!
//! Both engines stamp their samples on the common time line (the server's zero was computed from
//! the measured clock offset), so no times are shifted here. The result includes the bound of the
//! offset's error.

use crate::engine::{EngineResult as LocalEnd, reconcile_loss};
use crate::program_sanitizer::sanitize_program;
use crate::session::Session;
use crate::session_driver::SessionResults;
use crate::wire::{DirectionResult, StreamResult};
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::observation::{
    BothEnds, EndObservation, ObservedStream, StreamEnd, ThroughputObservation,
};
use longhaul_model::report::v1::plan::{RunDirection, RunTransport, ThroughputPlan};

/// The server's results, as received.
#[derive(Debug, Default)]
pub(super) struct ServerResults {
    pub streams: Vec<StreamResult>,
    pub ends: Vec<DirectionResult>,
}

/// One end of one direction.
struct DirectionSide {
    streams: Vec<StreamEnd>,
    end: EndObservation,
}

/// Joins the results of both ends; the error names what is missing.
pub(super) fn join_results(
    plan: &ThroughputPlan,
    collected: SessionResults,
    far: ServerResults,
    session: &Session,
) -> Result<(ThroughputObservation, Vec<ReportCaveat>), String> {
    let mut caveats = Vec::new();
    let mut far = Some(far);
    let mut one_way = |forward: bool, local: Option<LocalEnd>| {
        let local = local.ok_or("no result from the engine of this end")?;
        let far = take_server_results(&mut far, forward).ok_or("no result from the server")?;
        Ok::<_, String>(join_direction_sides(plan, forward, (local, far), session, &mut caveats))
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

/// Extracts the server's results of one direction.
fn take_server_results(
    far: &mut Option<ServerResults>,
    forward: bool,
) -> Option<(DirectionSide, Vec<ReportCaveat>)> {
    let results = far.take()?;
    let (mut streams, other_streams): (Vec<_>, Vec<_>) =
        results.streams.into_iter().partition(|stream| stream.forward == forward);
    let (ends, other_ends): (Vec<_>, Vec<_>) =
        results.ends.into_iter().partition(|end| end.forward == forward);
    *far = Some(ServerResults { streams: other_streams, ends: other_ends });
    streams.sort_by_key(|stream| stream.index);
    let end = ends.into_iter().next()?;
    let streams = streams.into_iter().map(|stream| stream.end).collect();
    let (mut end, caveats) = (end.end, end.caveats);
    end.program = end.program.map(sanitize_program);
    Some((DirectionSide { streams, end }, caveats))
}

fn join_direction_sides(
    plan: &ThroughputPlan,
    forward: bool,
    (local, (far, far_caveats)): (LocalEnd, (DirectionSide, Vec<ReportCaveat>)),
    session: &Session,
    caveats: &mut Vec<ReportCaveat>,
) -> ThroughputObservation {
    add_caveats(caveats, local.caveats, "");
    add_caveats(caveats, far_caveats, "server: ");
    let here = DirectionSide { streams: local.streams, end: local.end };
    let (sender, receiver) = if forward { (here, far) } else { (far, here) };
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
    add_stream_failures(&streams, caveats);
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

fn add_caveats(all: &mut Vec<ReportCaveat>, more: Vec<ReportCaveat>, whose: &str) {
    for caveat in more {
        let caveat = ReportCaveat::new(&caveat.code, format!("{whose}{}", caveat.text));
        if !all.contains(&caveat) {
            all.push(caveat);
        }
    }
}

/// Adds a caveat for each failed stream, which does not end the run but must be visible.
fn add_stream_failures(streams: &[ObservedStream], caveats: &mut Vec<ReportCaveat>) {
    for stream in streams {
        for (end, whose) in [(&stream.sender, "sender"), (&stream.receiver, "receiver")] {
            if let Some(error) = &end.error {
                let text = format!("stream {} ended early at the {whose}: {error}", stream.index);
                caveats.push(ReportCaveat::new("stream_failed", text));
            }
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
