//! Joins the readings of both ends into one observation.
//!
//! Both engines stamp their samples on the common time line (the server's zero was computed from
//! the measured clock offset), so no times are shifted here. The result includes the bound of the
//! offset's error.

use crate::engine::{EngineResult as LocalEnd, reconcile_loss};
use crate::program_sanitizer::sanitize_program;
use crate::session::{ServerDirection, Session};
use crate::session_driver::SessionResults;
use crate::wire::DirectionResult;
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::observation::{
    BothEnds, ObservedStream, StreamEnd, ThroughputObservation,
};
use longhaul_model::report::v1::plan::{RunDirection, RunTransport, ThroughputPlan};
use std::collections::BTreeMap;

/// Joins the results of both ends; the error names what is missing.
pub(super) fn join_results(
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

fn add_caveats(all: &mut Vec<ReportCaveat>, more: &[ReportCaveat], whose: &str) {
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
