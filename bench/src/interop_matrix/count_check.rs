//! Checks the reported byte counts against what the devices carried, within two per cent.
//!
//! Payload is what a device carried minus the headers of its packets. The comparison respects how
//! each end counts:
//!
//! - A receiver counts until it is told to stop. It must have counted at least what its device had
//!   received at that moment, and no more than what arrived in total. iperf3 counts whole blocks,
//!   as receiver and as sender: one for each stream may be missing ([`UncountedBytes`]).
//! - A sender counts what it wrote. That leaves its device, unless the connection is reset while
//!   payload is still in the send buffer: then the sender reports more than it sent, by at most
//!   what its buffers hold. Such a row passes and is marked.
//! - Retransmits pass a device twice and are counted once; datagrams that the receiver reports as
//!   lost may have been lost behind its device.

use super::device_counters::{DeviceCounters, DeviceTraffic};
use super::option_rows::OptionRow;
use super::reported_counts::{ReportedCounts, ReportedDirections};

const TOLERANCE: f64 = 0.02;
/// The payload of a full segment with timestamps.
const SEGMENT_BYTES: f64 = 1448.0;

/// The readings of both ends before a row, at its end, and after it.
#[derive(Debug, Clone, Copy)]
pub struct DeviceReadings {
    pub near: RowReadings,
    pub far: RowReadings,
}

/// The counters of one end's device, and what the end may not have counted.
#[derive(Debug, Clone, Copy)]
pub struct RowReadings {
    pub before: DeviceCounters,
    pub at_end: Option<DeviceCounters>,
    pub after: DeviceCounters,
    pub uncounted: UncountedBytes,
}

/// Tolerances that follow from the path.
#[derive(Debug, Clone, Copy)]
pub struct CountTolerance {
    /// The capacity of a connection's send buffer.
    pub buffer_bytes: f64,
    /// The bytes that pass in one RTT at the rate of the path.
    pub round_trip_bytes: f64,
    /// The bytes that pass in a tenth of a second.
    pub sample_bytes: f64,
}

/// The bytes that each stream of an end may have transferred without counting them.
#[derive(Debug, Clone, Copy, Default)]
pub struct UncountedBytes {
    pub sent: f64,
    pub received: f64,
}

/// Compares all counts of a row. Returns the bytes that a sender counted and that never left, as a
/// share of those that did, or the reason why the counts disagree.
pub fn compare_counts(
    row: OptionRow,
    claims: &ReportedDirections,
    devices: &DeviceReadings,
    slack: CountTolerance,
) -> Result<f64, String> {
    let check = |name, reported: Option<ReportedCounts>, from: RowReadings, to: RowReadings| {
        reported.map(|reported| DirectionCheck {
            name,
            reported,
            sender_drops: row.streams() * from.uncounted.sent,
            receiver_drops: row.streams() * to.uncounted.received,
            sent: DevicePayload::new(from, row, |counters| counters.sent),
            received: DevicePayload::new(to, row, |counters| counters.received),
        })
    };
    let forward = check("to the far end", claims.forward, devices.near, devices.far);
    let reverse = check("to the near end", claims.reverse, devices.far, devices.near);
    let mut dropped = 0.0_f64;
    for direction in [forward, reverse].into_iter().flatten() {
        direction.check_receiver(row, slack)?;
        dropped = dropped.max(direction.check_sender(row, slack)?);
    }
    Ok(dropped)
}

/// The payload that passed a device in one direction.
#[derive(Debug, Clone, Copy)]
struct DevicePayload {
    at_end: f64,
    all: f64,
}

impl DevicePayload {
    fn new(
        readings: RowReadings,
        row: OptionRow,
        pick: fn(&DeviceCounters) -> DeviceTraffic,
    ) -> DevicePayload {
        let before = pick(&readings.before);
        let payload = |to: DeviceCounters| {
            let to = pick(&to);
            let packets = (to.packets - before.packets) as f64;
            (to.bytes - before.bytes) as f64 - packets * header_bytes(row)
        };
        let all = payload(readings.after);
        DevicePayload { at_end: readings.at_end.map_or(all, payload).min(all), all }
    }
}

/// Returns the length of the headers: IP, and TCP with timestamps or UDP.
fn header_bytes(row: OptionRow) -> f64 {
    let ip = if row.is_ipv6() { 40.0 } else { 20.0 };
    ip + if row.is_udp() { 8.0 } else { 32.0 }
}

#[derive(Debug)]
struct DirectionCheck {
    name: &'static str,
    reported: ReportedCounts,
    /// The bytes that the sender may have written without counting them.
    sender_drops: f64,
    /// The bytes that the receiver may have received without counting them.
    receiver_drops: f64,
    sent: DevicePayload,
    received: DevicePayload,
}

impl DirectionCheck {
    fn check_receiver(&self, row: OptionRow, slack: CountTolerance) -> Result<(), String> {
        let Some(received) = self.reported.received else {
            return Ok(());
        };
        let again = self.reported.retransmits * SEGMENT_BYTES;
        let missing = again + self.reported.lost_bytes + self.receiver_drops;
        let least = self.received.at_end - missing;
        let most = self.received.all;
        if is_within(received, least, most, omitted_tolerance(row, slack)) {
            return Ok(());
        }
        Err(format!(
            "{}: {received:.0} bytes reported by the receiver; its device had {:.0} when the end was \
             announced, {most:.0} in all, {missing:.0} of them again, lost or not counted",
            self.name, self.received.at_end,
        ))
    }

    /// Returns the share of bytes that were counted and never sent.
    fn check_sender(&self, row: OptionRow, slack: CountTolerance) -> Result<f64, String> {
        let Some(sent) = self.reported.sent else {
            return Ok(0.0);
        };
        let again = self.reported.retransmits * SEGMENT_BYTES;
        let most = self.sent.all;
        let least = most - again - self.sender_drops;
        if is_within(sent, least, most, omitted_tolerance(row, slack)) {
            return Ok(0.0);
        }
        let over = sent - most;
        if !row.is_udp() && over > 0.0 && over <= row.streams() * slack.buffer_bytes {
            return Ok(over / most);
        }
        Err(format!(
            "{}: {sent:.0} bytes reported by the sender; its device sent {most:.0}, {again:.0} of \
             them again",
            self.name,
        ))
    }
}

/// Returns the payload by which the ends' omitted seconds may differ: they start at most an RTT and
/// a sample of 100 ms apart.
fn omitted_tolerance(row: OptionRow, slack: CountTolerance) -> f64 {
    if row.has("-O") { slack.round_trip_bytes + slack.sample_bytes } else { 0.0 }
}

fn is_within(value: f64, least: f64, most: f64, room: f64) -> bool {
    value >= least * (1.0 - TOLERANCE) - room && value <= most * (1.0 + TOLERANCE) + room
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: OptionRow = OptionRow { text: "-t 2" };
    const SLACK: CountTolerance =
        CountTolerance { buffer_bytes: 50_000.0, round_trip_bytes: 0.0, sample_bytes: 0.0 };

    fn carried(bytes: u64) -> DeviceCounters {
        // Ten packets with their headers.
        let traffic = DeviceTraffic { bytes: bytes + 520, packets: 10 };
        DeviceCounters { received: traffic, sent: traffic }
    }

    fn devices() -> DeviceReadings {
        let course = RowReadings {
            before: DeviceCounters::default(),
            at_end: Some(carried(900_000)),
            after: carried(1_000_000),
            uncounted: UncountedBytes::default(),
        };
        DeviceReadings { near: course, far: course }
    }

    fn found(sent: f64, received: f64) -> Result<f64, String> {
        let counts = ReportedCounts {
            sent: Some(sent),
            received: Some(received),
            ..ReportedCounts::default()
        };
        let claims = ReportedDirections { forward: Some(counts), reverse: None };
        compare_counts(ROW, &claims, &devices(), SLACK)
    }

    #[test]
    fn a_receiver_may_count_what_came_after_the_end_or_not() {
        for received in [890_000.0, 1_000_000.0, 1_010_000.0] {
            assert_eq!(found(1_000_000.0, received), Ok(0.0), "{received}");
        }
        for received in [870_000.0, 1_030_000.0] {
            assert!(found(1_000_000.0, received).is_err(), "{received}");
        }
    }

    #[test]
    fn a_sender_may_count_only_what_left_or_its_buffer() {
        assert_eq!(found(990_000.0, 950_000.0), Ok(0.0));
        assert_eq!(found(1_040_000.0, 950_000.0), Ok(0.04));
        for sent in [970_000.0, 1_060_000.0] {
            assert!(found(sent, 950_000.0).is_err(), "{sent}");
        }
    }
}
