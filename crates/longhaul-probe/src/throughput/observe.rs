//! Joins the readings of both ends into one observation.
//!
//! Both engines stamp their samples on the common time line (the server's zero was computed from
//! the measured clock offset), so no times are shifted here. The result includes the bound of the
//! offset's error.

use crate::drive::Collected;
use crate::engine::{EndResult as LocalEnd, reconcile};
use crate::session::Session;
use crate::told::tamed;
use crate::wire::{EndResult, StreamResult};
use longhaul_model::report::v1::Caveat;
use longhaul_model::report::v1::observation::{End, Ends, Observation, Stream, StreamEnd};
use longhaul_model::report::v1::plan::{Direction, Plan, Transport};

/// The server's results, as received.
#[derive(Debug, Default)]
pub(super) struct FarResults {
    pub streams: Vec<StreamResult>,
    pub ends: Vec<EndResult>,
}

/// One end of one direction.
struct Side {
    streams: Vec<StreamEnd>,
    end: End,
}

/// Joins the results of both ends; the error names what is missing.
pub(super) fn join(
    plan: &Plan,
    collected: Collected,
    far: FarResults,
    session: &Session,
) -> Result<(Observation, Vec<Caveat>), String> {
    let mut caveats = Vec::new();
    let mut far = Some(far);
    let mut one_way = |forward: bool, local: Option<LocalEnd>| {
        let local = local.ok_or("this end's engine gave no result")?;
        let far = take_far(&mut far, forward).ok_or("the far end gave no result")?;
        Ok::<_, String>(direction(
            plan,
            forward,
            (local, far),
            session,
            &mut caveats,
        ))
    };
    let observation = match plan.direction {
        Direction::Forward => one_way(true, collected.sender)?,
        Direction::Reverse => one_way(false, collected.receiver)?,
        Direction::Both => {
            let reverse = one_way(false, collected.receiver)?;
            let forward = one_way(true, collected.sender)?;
            Observation {
                reverse: Some(Box::new(reverse)),
                ..forward
            }
        }
    };
    let moved = |o: &Observation| o.ends.receiver.bytes > 0;
    if plan.transport == Transport::Tcp && !moved(&observation) {
        return Err("no payload arrived at the receiver".to_owned());
    }
    Ok((observation, caveats))
}

/// Extracts the server's results of one direction.
fn take_far(far: &mut Option<FarResults>, forward: bool) -> Option<(Side, Vec<Caveat>)> {
    let results = far.take()?;
    let (mut streams, other_streams): (Vec<_>, Vec<_>) = results
        .streams
        .into_iter()
        .partition(|stream| stream.forward == forward);
    let (ends, other_ends): (Vec<_>, Vec<_>) = results
        .ends
        .into_iter()
        .partition(|end| end.forward == forward);
    *far = Some(FarResults {
        streams: other_streams,
        ends: other_ends,
    });
    streams.sort_by_key(|stream| stream.index);
    let end = ends.into_iter().next()?;
    let streams = streams.into_iter().map(|stream| stream.end).collect();
    let (mut end, caveats) = (end.end, end.caveats);
    end.program = end.program.map(tamed);
    Some((Side { streams, end }, caveats))
}

fn direction(
    plan: &Plan,
    forward: bool,
    (local, (far, far_caveats)): (LocalEnd, (Side, Vec<Caveat>)),
    session: &Session,
    caveats: &mut Vec<Caveat>,
) -> Observation {
    add_caveats(caveats, local.caveats, "");
    add_caveats(caveats, far_caveats, "far end: ");
    let here = Side {
        streams: local.streams,
        end: local.end,
    };
    let (sender, receiver) = if forward { (here, far) } else { (far, here) };
    let mut streams: Vec<Stream> = sender
        .streams
        .into_iter()
        .zip(receiver.streams)
        .enumerate()
        .map(|(index, (sender, receiver))| Stream {
            index: index as u32,
            sender,
            receiver,
        })
        .collect();
    if plan.transport != Transport::Tcp {
        for stream in &mut streams {
            reconcile(&stream.sender, &mut stream.receiver);
        }
    }
    name_failures(&streams, caveats);
    let clock = session.clock();
    Observation {
        forward,
        elapsed_us: elapsed_us(&streams),
        idle_rtt_us: clock.map(|clock| clock.rtt.as_micros() as u64),
        clock_error_us: clock.map(|clock| clock.error().as_micros() as u64),
        same_host: session.same_host(),
        same_boot: session.same_boot(),
        streams,
        ends: Ends {
            sender: sender.end,
            receiver: receiver.end,
        },
        reverse: None,
    }
}

fn add_caveats(all: &mut Vec<Caveat>, more: Vec<Caveat>, whose: &str) {
    for caveat in more {
        let caveat = Caveat::new(&caveat.code, format!("{whose}{}", caveat.text));
        if !all.contains(&caveat) {
            all.push(caveat);
        }
    }
}

/// Adds a caveat for each failed stream, which does not end the run but must be visible.
fn name_failures(streams: &[Stream], caveats: &mut Vec<Caveat>) {
    for stream in streams {
        for (end, whose) in [(&stream.sender, "sender"), (&stream.receiver, "receiver")] {
            if let Some(error) = &end.error {
                let text = format!(
                    "stream {} ended early at the {whose}: {error}",
                    stream.index
                );
                caveats.push(Caveat::new("stream_failed", text));
            }
        }
    }
}

/// Returns the time from the first payload byte at the receiver to the last.
pub fn elapsed_us(streams: &[Stream]) -> u64 {
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
