//! Builds this end's results in iperf3's format.

use super::course::{Course, Reading};
use super::wire::{Direction, Results, StreamResults, Test, Transport, stream_id};
use crate::drive::Collected;
use crate::engine::EndResult;
use longhaul_model::report::v1::observation::{Sample, StreamEnd, Udp};
use std::time::Duration;

/// A stream and its position among all streams of the test.
pub(crate) struct Place<'a> {
    pub id: i64,
    pub sends: bool,
    pub end: &'a StreamEnd,
    /// The stream's index in the readings.
    pub row: usize,
}

/// Returns the streams of a test in the order in which the client opened them.
pub(crate) fn places<'a>(test: &Test, collected: &'a Collected) -> Vec<Place<'a>> {
    let receives = streams(collected.receiver.as_ref());
    let sends = streams(collected.sender.as_ref());
    let first_sending = match test.direction {
        Direction::Both => test.streams as usize,
        _ => 0,
    };
    let receiving = receives.iter().enumerate().map(|(index, end)| Place {
        id: stream_id(index),
        sends: false,
        end,
        row: index,
    });
    let sending = sends.iter().enumerate().map(|(index, end)| Place {
        id: stream_id(first_sending + index),
        sends: true,
        end,
        row: receives.len() + index,
    });
    receiving.chain(sending).collect()
}

fn streams(end: Option<&EndResult>) -> &[StreamEnd] {
    end.map_or(&[], |end| &end.streams)
}

/// Builds the results for the client.
pub(crate) fn results(test: &Test, collected: &Collected, course: &Course) -> Results {
    let span = Span::of(course);
    let (user, system) = processor(collected, &span);
    let sends = test.direction != Direction::Forward;
    let streams = places(test, collected);
    let streams = streams.iter().map(|place| stream(test, place, &span));
    Results {
        cpu_util_total: user + system,
        cpu_util_user: user,
        cpu_util_system: system,
        sender_has_retransmits: match (sends, test.transport) {
            (true, Transport::Tcp) => 1,
            (true, Transport::Udp) => 0,
            (false, _) => -1,
        },
        congestion_used: congestion(collected),
        server_output_text: None,
        server_output_json: None,
        streams: streams.collect(),
    }
}

/// The counted part of a test.
pub(crate) struct Span<'a> {
    pub begin: Option<&'a Reading>,
    pub end: Option<&'a Reading>,
}

impl<'a> Span<'a> {
    pub fn of(course: &'a Course) -> Span<'a> {
        Span {
            begin: course.begin.as_ref(),
            end: course.readings.last(),
        }
    }

    pub fn lasted(&self) -> Duration {
        let at = |reading: Option<&Reading>| reading.map_or(Duration::ZERO, |reading| reading.at);
        at(self.end).saturating_sub(at(self.begin))
    }

    /// Returns the increase of a counter.
    fn grown(&self, of: impl Fn(&Reading) -> u64) -> u64 {
        let count = |reading: Option<&Reading>| reading.map_or(0, &of);
        count(self.end).saturating_sub(count(self.begin))
    }
}

fn stream(test: &Test, place: &Place, span: &Span) -> StreamResults {
    let whole = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let row = place.row;
    let udp = |reading: &Reading| reading.datagrams.get(row).copied().unwrap_or_default();
    let packets = |udp: Udp| {
        if place.sends {
            udp.datagrams
        } else {
            udp.datagrams + udp.lost
        }
    };
    let omitted = span.begin.map(udp).unwrap_or_default();
    let at_end = span.end.map(udp).unwrap_or_default();
    let datagrams = test.transport == Transport::Udp;
    let counted = |count: u64| if datagrams { whole(count) } else { 0 };
    StreamResults {
        id: place.id,
        bytes: whole(span.grown(|reading| reading.bytes.get(row).copied().unwrap_or(0))),
        retransmits: retransmits(test, place, span),
        jitter: at_end.jitter_ns.unwrap_or(0) as f64 / 1e9,
        errors: counted(at_end.lost),
        omitted_errors: Some(counted(omitted.lost)),
        packets: counted(packets(at_end)),
        omitted_packets: Some(counted(packets(omitted))),
        start_time: Some(0.0),
        end_time: Some(span.lasted().as_secs_f64()),
    }
}

/// Returns the retransmits since counting began; -1 if this end does not send.
fn retransmits(test: &Test, place: &Place, span: &Span) -> i64 {
    if !place.sends || test.transport == Transport::Udp {
        return -1;
    }
    let count = |sample: &Sample| Some(sample.tcp.as_ref()?.retransmitted_segments as i64);
    let samples = &place.end.samples;
    let last = samples.iter().rev().find_map(count);
    let Some(last) = last else {
        return -1;
    };
    let begin = span.begin.map_or(Duration::ZERO, |begin| begin.at);
    let from = place
        .end
        .started_us
        .saturating_add(begin.as_micros() as u64);
    let mut before = samples.iter().rev().filter(|sample| sample.at_us <= from);
    let omitted = (!begin.is_zero()).then(|| before.find_map(count));
    last - omitted.flatten().unwrap_or(0)
}

/// Returns the user and system time of this process, in percent of one core.
fn processor(collected: &Collected, span: &Span) -> (f64, f64) {
    let end = collected.receiver.as_ref().or(collected.sender.as_ref());
    let lasted = span.end.map_or(0.0, |end| end.at.as_secs_f64());
    let share = |us: Option<u64>| match us {
        Some(us) if lasted > 0.0 => us as f64 / 1e4 / lasted,
        _ => 0.0,
    };
    let end = end.map(|end| &end.end);
    (
        share(end.and_then(|end| end.cpu_user_us)),
        share(end.and_then(|end| end.cpu_system_us)),
    )
}

fn congestion(collected: &Collected) -> Option<String> {
    let ends = collected.sender.iter().chain(&collected.receiver);
    ends.flat_map(|end| &end.streams)
        .find_map(|stream| stream.congestion_control.clone())
}
