//! Reconstructs the counters of one end of a TCP connection from its packets, as the kernel of that end
//! would count them.
//!
//! The bytes in flight, the windows and the round trips at the capture point give most of TCP_INFO. The
//! congestion window is not in the packets: the most bytes in flight stand for it. A short segment shows
//! that the sender had nothing more to send, or it would have filled the segment. The time until its next
//! data counts as limited by the application, or by the send buffer if an acknowledgement released the data.
//! Bytes that the application has not read are those by which the advertised window has shrunk.
//!
//! A congestion window that is the limit grows, and never leaves nothing in flight. If the bytes in flight
//! stay level without a loss, below the peer's window, something else limits them: a send buffer, a pacer,
//! or an application that writes in bursts ([`super::send_bursts`]).
//!
//! Source: RFC 9293; RFC 7323 (RTT of a receiver from echoed timestamps); RFC 6298 (smoothing).
//! Units: bytes, us. Error: the response time of the end, if it is not that of the capture.
//! Wrong when: the capture is far from this end, or lost packets.

use super::send_bursts::{SendBursts, SendClock, is_released};
use super::tracked_direction::TrackedDirection;
use longhaul_model::decoded_packet::{DecodedPacket, TcpFlags, TcpHeader};
use longhaul_model::report::v1::flows::flow_grouping::FlowSample;
use longhaul_model::report::v1::observation::TcpReading;
use std::collections::VecDeque;

/// The parameters of the reconstruction.
struct SamplerTuning;

impl SamplerTuning {
    /// The first spacing of samples. It doubles when there are too many of them.
    const FIRST_STEP_US: u64 = 20_000;
    const MAX_SAMPLES: usize = 600;
    /// The spacing of the samples of a long transfer, and the number of samples of a short one.
    const USUAL_STEP_US: u64 = 100_000;
    const MIN_SAMPLES: u64 = 30;
    /// Timestamps whose echo is awaited.
    const MAX_AWAITED_ECHOES: usize = 256;
    /// Data so soon after an acknowledgement was released by it.
    const RELEASE_US: u64 = 1500;
    /// A sender that has nothing to send for this share of the time is not limited by the path, which would
    /// carry more. The bursts of an application come within this time.
    const DRY_RATIO: f64 = 0.2;
    const DRY_WINDOW_US: u64 = 1_000_000;
    /// A full send buffer keeps this share of the most bytes in flight.
    const RELEASE_FLIGHT_RATIO: f64 = 0.4;
    /// The most bytes in flight are forgotten by this factor per sample.
    const PEAK_DECAY: f64 = 0.95;
    /// The weight of a new round trip (RFC 6298).
    const RTT_WEIGHT: f64 = 0.125;
    /// The most bytes in flight of a sample are level within this share, and so many segments, ...
    const LEVEL_RATIO: f64 = 0.03;
    const LEVEL_SEGMENTS: u64 = 2;
    /// ... after so many round trips, and this time, and so long after a loss.
    const LEVEL_TRIPS: u64 = 10;
    const LEVEL_US: u64 = 1_000_000;
    const LOSS_MEMORY_US: u64 = 10_000_000;
    /// The minimum time over which bursts are judged.
    const JUDGED_US: u64 = 100_000;
}

/// The two directions of a flow as one of its ends sees them.
#[derive(Clone, Copy)]
pub(super) struct EndView<'a> {
    pub sent: &'a TrackedDirection,
    pub received: &'a TrackedDirection,
    /// The windows that the peer and this end advertise; `None` if their scale is unknown.
    pub peer_window: Option<u64>,
    pub own_window: Option<u64>,
    pub mss_bytes: u64,
}

/// The counters of one end at one moment.
#[derive(Debug, Clone, Copy, Default)]
struct EndSnapshot {
    at_us: u64,
    rtt_us: u64,
    rtt_min_us: Option<u64>,
    receive_rtt_us: Option<u64>,
    flight_bytes: u64,
    mean_flight_bytes: u64,
    max_flight_bytes: u64,
    acked_bytes: u64,
    received_bytes: u64,
    sent_bytes: u64,
    retransmits: u64,
    retransmitted_bytes: u64,
    timeouts: u64,
    timeout_us: u64,
    data_out: u64,
    data_in: u64,
    segments_out: u64,
    segments_in: u64,
    out_of_order: u64,
    marked: u64,
    duplicates: u64,
    busy_us: u64,
    window_us: u64,
    application_us: u64,
    buffer_us: u64,
    peer_window: Option<u64>,
    own_window: Option<u64>,
    unread_bytes: u64,
    /// Set if a pacer seems to limit.
    pacing_bps: Option<u64>,
}

/// The bursts since a time, and the bytes in flight.
#[derive(Debug, Clone, Default)]
struct JudgedSpan {
    since_us: u64,
    max_flight_bytes: u64,
    /// Bytes in flight, times microseconds.
    flight_time: f64,
    /// The time with nothing in flight.
    idle_us: u64,
    bursts: SendBursts,
}

/// Bytes in flight that stay level.
#[derive(Debug, Clone, Copy, Default)]
struct FlightLevel {
    bytes: u64,
    since_us: u64,
    retransmits: u64,
    last_loss_us: Option<u64>,
}

impl FlightLevel {
    /// Adds the most bytes in flight of some time; returns true if they are level without losses.
    fn add_flight(&mut self, bytes: u64, now: &EndSnapshot, mss_bytes: u64) -> bool {
        let band = (SamplerTuning::LEVEL_RATIO * self.bytes as f64) as u64;
        let band = band.max(SamplerTuning::LEVEL_SEGMENTS * mss_bytes);
        if bytes.abs_diff(self.bytes) > band {
            (self.bytes, self.since_us) = (bytes, now.at_us);
        }
        if now.retransmits > self.retransmits {
            (self.retransmits, self.last_loss_us) = (now.retransmits, Some(now.at_us));
        }
        let trips_us = now.rtt_us.saturating_mul(SamplerTuning::LEVEL_TRIPS);
        let lasts_us = now.at_us.saturating_sub(self.since_us);
        let memory_us = SamplerTuning::LOSS_MEMORY_US;
        let is_lossless = self.last_loss_us.is_none_or(|us| now.at_us - us > memory_us);
        is_lossless && lasts_us >= trips_us.max(SamplerTuning::LEVEL_US)
    }
}

/// Samples the counters of one end.
#[derive(Debug, Clone)]
pub(super) struct EndSampler {
    /// The counters so far.
    now: EndSnapshot,
    flight_time: f64,
    sampled_us: u64,
    step_us: u64,
    snapshots: Vec<EndSnapshot>,
    peak_flight: f64,
    largest_own_window: u64,
    /// The levels of the most and of the mean bytes in flight.
    peak_level: FlightLevel,
    mean_level: FlightLevel,
    judged: JudgedSpan,
    last_sent_us: Option<u64>,
    /// The time since which this end has nothing to send, and the data packets received by then.
    dry_since: Option<(u64, u64)>,
    last_ack_us: Option<u64>,
    last_request_us: Option<u64>,
    /// The time between the last two acknowledgements.
    ack_gap_us: u64,
    /// Timestamps of this end with the time at which each was first sent.
    awaited_echoes: VecDeque<(u32, u64)>,
    /// The shortest time until such a timestamp was echoed with data.
    least_echo_us: Option<u64>,
}

impl EndSampler {
    pub fn new(at_us: u64) -> EndSampler {
        let now = EndSnapshot { at_us, ..EndSnapshot::default() };
        EndSampler {
            now,
            flight_time: 0.0,
            sampled_us: at_us,
            step_us: SamplerTuning::FIRST_STEP_US,
            snapshots: vec![now],
            peak_flight: 0.0,
            largest_own_window: 0,
            peak_level: FlightLevel::default(),
            mean_level: FlightLevel::default(),
            judged: JudgedSpan { since_us: at_us, ..JudgedSpan::default() },
            last_sent_us: None,
            dry_since: None,
            last_ack_us: None,
            last_request_us: None,
            ack_gap_us: 0,
            awaited_echoes: VecDeque::new(),
            least_echo_us: None,
        }
    }

    /// Returns the shortest time from a packet of this end to data that echoes it: the RTT between the
    /// capture and the other end.
    pub fn least_echo_us(&self) -> Option<u64> {
        self.least_echo_us
    }

    /// Counts the time until `at_us`, in which nothing changed.
    pub fn advance(&mut self, at_us: u64, view: EndView) {
        let flight = view.sent.in_flight();
        while self.sampled_us + self.step_us <= at_us {
            // A pause has one sample at each of its ends.
            let behind = (at_us - self.sampled_us) / self.step_us;
            let is_first = self.now.at_us > self.sampled_us;
            let steps = if is_first { 1 } else { behind };
            let until_us = self.sampled_us + steps * self.step_us;
            self.spend_time(until_us, flight, view);
            self.take_snapshot(until_us, view);
        }
        self.spend_time(at_us, flight, view);
    }

    fn spend_time(&mut self, until_us: u64, flight: u64, view: EndView) {
        let spent = until_us.saturating_sub(self.now.at_us);
        let now = &mut self.now;
        now.at_us = now.at_us.max(until_us);
        if flight > 0 {
            now.busy_us += spent;
        } else {
            self.judged.idle_us += spent;
        }
        if flight > 0 && view.peer_window.is_some_and(|window| flight + view.mss_bytes > window) {
            now.window_us += spent;
        }
        self.flight_time += flight as f64 * spent as f64;
        self.judged.flight_time += flight as f64 * spent as f64;
        now.max_flight_bytes = now.max_flight_bytes.max(flight);
    }

    fn take_snapshot(&mut self, at_us: u64, view: EndView) {
        let length_us = at_us.saturating_sub(self.sampled_us).max(1);
        self.now.flight_bytes = view.sent.in_flight();
        self.now.mean_flight_bytes = (self.flight_time / length_us as f64) as u64;
        self.read_directions(view);
        self.snapshots.push(self.now);
        self.judge_level_flight(view);
        self.now.receive_rtt_us = None;
        let peak = (self.now.max_flight_bytes as f64).max(self.peak_flight);
        self.peak_flight = peak * SamplerTuning::PEAK_DECAY;
        (self.sampled_us, self.flight_time, self.now.max_flight_bytes) = (at_us, 0.0, 0);
        if self.snapshots.len() >= SamplerTuning::MAX_SAMPLES {
            self.snapshots = thin_snapshots(&self.snapshots, 2);
            self.step_us *= 2;
        }
    }

    /// Attributes the time since the last judgement, if the bytes in flight are level.
    fn judge_level_flight(&mut self, view: EndView) {
        let (now, mss) = (self.now, view.mss_bytes);
        self.judged.max_flight_bytes = self.judged.max_flight_bytes.max(now.max_flight_bytes);
        let length_us = now.at_us.saturating_sub(self.judged.since_us);
        if length_us < now.rtt_us.max(SamplerTuning::JUDGED_US) {
            return;
        }
        let begun = JudgedSpan { since_us: now.at_us, ..JudgedSpan::default() };
        let judged = std::mem::replace(&mut self.judged, begun);
        let mean_flight = (judged.flight_time / length_us as f64) as u64;
        let is_peak_level = self.peak_level.add_flight(judged.max_flight_bytes, &now, mss);
        let is_level = self.mean_level.add_flight(mean_flight, &now, mss) || is_peak_level;
        let has_room = view.peer_window.is_none_or(|it| judged.max_flight_bytes + mss <= it);
        let is_often_idle = judged.idle_us as f64 > SamplerTuning::DRY_RATIO * length_us as f64;
        let clock = judged.bursts.find_clock(length_us, mss).filter(|_| has_room);
        self.now.pacing_bps = None;
        match clock {
            Some(SendClock::Acknowledgements) if is_level => {
                self.attribute_time(judged.since_us, |it| &mut it.buffer_us);
            }
            Some(SendClock::Pacer) if is_level || is_often_idle => {
                self.now.pacing_bps = judged.bursts.measure_rate_bps();
            }
            Some(SendClock::Application) if is_level => {
                self.attribute_time(judged.since_us, |it| &mut it.application_us);
            }
            _ => {}
        }
    }

    /// Adds the time since `since_us` to a counter, of which the samples within it have their part.
    fn attribute_time(&mut self, since_us: u64, counter: impl Fn(&mut EndSnapshot) -> &mut u64) {
        *counter(&mut self.now) += self.now.at_us.saturating_sub(since_us);
        for snapshot in self.snapshots.iter_mut().rev().take_while(|it| it.at_us > since_us) {
            *counter(snapshot) += snapshot.at_us - since_us;
        }
    }

    fn read_directions(&mut self, view: EndView) {
        let (sent, received, now) = (view.sent, view.received, &mut self.now);
        (now.acked_bytes, now.received_bytes) = (sent.acked_bytes(), received.acked_bytes());
        let tcp = sent.counters();
        (now.retransmits, now.retransmitted_bytes) =
            (tcp.retransmitted_packets, tcp.retransmitted_bytes);
        (now.timeouts, now.timeout_us) = (tcp.timeouts, tcp.timeout_us);
        now.duplicates = tcp.duplicate_sack_packets;
        now.sent_bytes = sent.way.payload_bytes;
        (now.segments_out, now.segments_in) = (sent.way.packets, received.way.packets);
        now.out_of_order = received.out_of_order();
        now.marked = received.echoed_marks();
        now.rtt_us = sent.smoothed_rtt_us();
        now.rtt_min_us = sent.least_rtt_us();
        (now.peer_window, now.own_window) = (view.peer_window, view.own_window);
        self.largest_own_window = self.largest_own_window.max(view.own_window.unwrap_or(0));
        now.unread_bytes =
            view.own_window.map_or(0, |window| self.largest_own_window.saturating_sub(window));
    }

    /// Counts a packet that this end sent; `view` is that after it. `fresh` is true if it has new data.
    pub fn add_sent(
        &mut self,
        packet: &DecodedPacket,
        segment: &TcpHeader,
        fresh: bool,
        view: EndView,
    ) {
        let at_us = self.now.at_us;
        if let Some((stamp, _)) = segment.options.timestamps {
            self.await_echo(stamp, at_us);
        }
        if packet.payload_bytes == 0 {
            return;
        }
        let payload = u64::from(packet.payload_bytes);
        self.now.data_out += payload.div_ceil(view.mss_bytes);
        if fresh {
            let is_short = !payload.is_multiple_of(view.mss_bytes);
            self.add_burst(at_us, payload, is_short);
            self.end_dry_time(at_us, payload, view);
            let has_room =
                view.peer_window.is_none_or(|it| view.sent.in_flight() + view.mss_bytes <= it);
            self.dry_since = (is_short && has_room).then_some((at_us, self.now.data_in));
        }
    }

    /// Adds new data to the burst, or begins one after a pause.
    fn add_burst(&mut self, at_us: u64, payload: u64, is_short: bool) {
        self.judged.bursts.bytes += payload;
        self.judged.bursts.short_segments += u64::from(is_short);
        let Some(before_us) = self.last_sent_us.replace(at_us) else { return };
        let since_ack_us = self.since_ack_us(at_us);
        let pause_us = at_us.saturating_sub(before_us);
        self.judged.bursts.add_pause(pause_us, since_ack_us, self.ack_gap_us);
    }

    /// Returns the time since the last acknowledgement; the maximum if a request came after it, which data
    /// answers.
    fn since_ack_us(&self, at_us: u64) -> u64 {
        let is_last = |ack_us: &u64| self.last_request_us.is_none_or(|it| it < *ack_us);
        self.last_ack_us.filter(is_last).map_or(u64::MAX, |it| at_us.saturating_sub(it))
    }

    /// Attributes the time in which this end sent nothing new to its application or its send buffer.
    fn end_dry_time(&mut self, at_us: u64, payload: u64, view: EndView) {
        let Some((since_us, data_in)) = self.dry_since.take() else { return };
        let flight_before = view.sent.in_flight().saturating_sub(payload);
        let (dry_us, since_ack_us) = (at_us.saturating_sub(since_us), self.since_ack_us(at_us));
        let is_released = since_ack_us < dry_us.min(SamplerTuning::RELEASE_US)
            && is_released(dry_us, since_ack_us, self.ack_gap_us);
        let keeps_flight =
            flight_before as f64 >= SamplerTuning::RELEASE_FLIGHT_RATIO * self.peak_flight;
        let is_buffer = is_released && keeps_flight && self.now.data_in == data_in;
        self.attribute_time(since_us, |it| {
            if is_buffer { &mut it.buffer_us } else { &mut it.application_us }
        });
    }

    /// Counts a packet that this end received; `view` is that after it.
    pub fn add_received(&mut self, packet: &DecodedPacket, segment: &TcpHeader, view: EndView) {
        let at_us = self.now.at_us;
        let payload = u64::from(packet.payload_bytes);
        self.now.data_in += payload.div_ceil(view.mss_bytes);
        if payload > 0 {
            self.last_request_us = Some(at_us);
        } else if segment.flags.has(TcpFlags::ACK) {
            let before_us = self.last_ack_us.replace(at_us);
            self.ack_gap_us = before_us.map_or(0, |it| at_us.saturating_sub(it));
        }
        if view.sent.in_flight() == 0 && self.now.data_out > 0 {
            self.dry_since.get_or_insert((at_us, self.now.data_in));
        }
        if let (Some((_, echo)), true) = (segment.options.timestamps, payload > 0) {
            self.take_echo(echo, at_us);
        }
    }

    fn await_echo(&mut self, stamp: u32, at_us: u64) {
        let is_new = |last: &(u32, u64)| super::is_later_timestamp(stamp, last.0);
        if self.awaited_echoes.back().is_none_or(is_new) {
            if self.awaited_echoes.len() >= SamplerTuning::MAX_AWAITED_ECHOES {
                self.awaited_echoes.pop_front();
            }
            self.awaited_echoes.push_back((stamp, at_us));
        }
    }

    fn take_echo(&mut self, echo: u32, at_us: u64) {
        while let Some((stamp, sent_us)) = self.awaited_echoes.front().copied() {
            if super::is_later_timestamp(stamp, echo) {
                return;
            }
            self.awaited_echoes.pop_front();
            if stamp == echo {
                let rtt_us = at_us.saturating_sub(sent_us);
                self.least_echo_us = Some(self.least_echo_us.map_or(rtt_us, |us| us.min(rtt_us)));
                // The shortest of a sample: others include the pauses of the sender.
                let shortest = self.now.receive_rtt_us.map_or(rtt_us, |us| us.min(rtt_us));
                self.now.receive_rtt_us = Some(shortest);
                return;
            }
        }
    }

    /// Returns the samples of this end; `view` is that at the end of the capture.
    pub fn finish(mut self, at_us: u64, view: EndView) -> Vec<FlowSample> {
        self.advance(at_us, view);
        if at_us > self.sampled_us {
            self.take_snapshot(at_us, view);
        }
        let first_us = self.snapshots.first().map_or(at_us, |it| it.at_us);
        let usual = (at_us.saturating_sub(first_us) / SamplerTuning::MIN_SAMPLES)
            .min(SamplerTuning::USUAL_STEP_US);
        let every = (usual / self.step_us).max(1) as usize;
        let thinned = thin_snapshots(&self.snapshots, every);
        let samples = thinned.iter().map(|now| {
            let is_dry = now.pacing_bps.is_none() && is_often_dry(&thinned, now.at_us);
            now.to_sample(is_dry, view.mss_bytes)
        });
        samples.collect()
    }
}

pub(super) fn smooth_rtt(smoothed: Option<u64>, sample: u64) -> u64 {
    let weight = SamplerTuning::RTT_WEIGHT;
    smoothed.map_or(sample, |before| {
        ((1.0 - weight) * before as f64 + weight * sample as f64).round() as u64
    })
}

/// Keeps the first snapshot and the last of each group of `every`, with the flights of all of it.
fn thin_snapshots(snapshots: &[EndSnapshot], every: usize) -> Vec<EndSnapshot> {
    let Some((first, rest)) = snapshots.split_first() else { return Vec::new() };
    let groups = rest.chunks(every).filter_map(|group| {
        let mean = group.iter().map(|it| it.mean_flight_bytes).sum::<u64>() / group.len() as u64;
        let max = group.iter().map(|it| it.max_flight_bytes).max()?;
        let last = *group.last()?;
        let receive_rtt_us = group.iter().filter_map(|it| it.receive_rtt_us).min();
        Some(EndSnapshot { mean_flight_bytes: mean, max_flight_bytes: max, receive_rtt_us, ..last })
    });
    [*first].into_iter().chain(groups).collect()
}

/// Returns true if this end often had nothing to send around a time, because of its application.
fn is_often_dry(snapshots: &[EndSnapshot], at_us: u64) -> bool {
    let half_us = SamplerTuning::DRY_WINDOW_US / 2;
    let from = snapshots.partition_point(|it| it.at_us.saturating_add(half_us) < at_us);
    let to = snapshots.partition_point(|it| it.at_us <= at_us.saturating_add(half_us));
    let [before, after] = [from.saturating_sub(1), to.saturating_sub(1)].map(|it| snapshots[it]);
    let length_us = after.at_us.saturating_sub(before.at_us);
    let dry_us = after.application_us.saturating_sub(before.application_us);
    let full_us = after.buffer_us.saturating_sub(before.buffer_us);
    dry_us > full_us && dry_us as f64 > SamplerTuning::DRY_RATIO * length_us as f64
}

impl EndSnapshot {
    fn to_sample(self, is_dry: bool, mss_bytes: u64) -> FlowSample {
        let tcp = TcpReading {
            rtt_us: self.rtt_us,
            rtt_min_us: self.rtt_min_us,
            receive_rtt_us: self.receive_rtt_us,
            mss_bytes,
            cwnd_bytes: self.max_flight_bytes.max(mss_bytes),
            unacked_bytes: self.mean_flight_bytes,
            retransmitted_segments: self.retransmits,
            reordering_segments: 3,
            app_limited: Some(is_dry),
            bytes_acked: Some(self.acked_bytes),
            bytes_received: Some(self.received_bytes),
            bytes_sent: Some(self.sent_bytes),
            bytes_retransmitted: Some(self.retransmitted_bytes),
            segments_out: Some(self.segments_out),
            segments_in: Some(self.segments_in),
            data_segments_out: Some(self.data_out),
            data_segments_in: Some(self.data_in),
            busy_us: Some(self.busy_us),
            receive_window_limited_us: Some(self.window_us),
            pacing_bps: self.pacing_bps,
            send_buffer_limited_us: Some(self.buffer_us),
            dsack_duplicates: Some(self.duplicates),
            out_of_order_segments: Some(self.out_of_order),
            marked_segments: Some(self.marked),
            peer_window_bytes: self.peer_window,
            own_window_bytes: self.own_window,
            timeouts: Some(self.timeouts),
            timeout_us: Some(self.timeout_us),
            ..TcpReading::default()
        };
        FlowSample {
            at_us: self.at_us,
            unread_bytes: self.unread_bytes,
            unacknowledged_bytes: self.flight_bytes,
            tcp,
            ..FlowSample::default()
        }
    }
}
