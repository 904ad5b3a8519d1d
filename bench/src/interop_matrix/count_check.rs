//! Checks the reported byte counts against what the devices carried, within two per cent.
//!
//! Payload is what a device carried minus the headers of its packets. The comparison respects how
//! each end counts:
//!
//! - A receiver counts until it is told to stop. It must have counted at least what its device had
//!   received at that moment, and no more than what arrived in total. iperf3 counts whole blocks,
//!   as receiver and as sender: one for each stream may be missing ([`UncountedBlocks`]).
//! - A sender counts what it wrote. That leaves its device, unless the connection is reset while
//!   payload is still in the send buffer: then the sender reports more than it sent, by at most
//!   what its buffers hold. Such a row passes and is marked.
//! - Retransmits pass a device twice and are counted once; datagrams that the receiver reports as
//!   lost may have been lost behind its device.

use super::ReportedCounts;
use super::device_counters::DeviceCounters;
use super::option_rows::OptionRow;
use serde::Deserialize;

const TOLERANCE: f64 = 0.02;
/// The payload of a full segment with timestamps.
const SEGMENT_BYTES: f64 = 1448.0;

/// The counters of one end's device before, at the end of, and after a row, and what the end may
/// not have counted.
#[derive(Debug, Clone, Copy)]
pub struct RowReadings {
    pub before: DeviceCounters,
    pub at_end: Option<DeviceCounters>,
    pub after: DeviceCounters,
    pub uncounted: UncountedBlocks,
}

/// Tolerances that follow from the path.
#[derive(Debug, Clone, Copy)]
pub struct CountTolerance {
    /// The capacity of a connection's send buffer.
    pub buffer_bytes: f64,
    /// The payload by which the omitted seconds of both ends may differ.
    pub omitted_bytes: f64,
}

/// The roles in which each stream of an end may leave one block uncounted.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub struct UncountedBlocks {
    sent: bool,
    received: bool,
}

/// Returns the bytes that the streams of an end may have transferred without counting them.
fn uncounted_bytes(row: OptionRow, leaves_block: bool) -> f64 {
    if leaves_block && !row.is_udp() { row.streams() * row.block_bytes() } else { 0.0 }
}

/// Compares all counts of a row with the devices of client and server. Returns the bytes that a
/// sender counted and that never left, as a share of those that did, or the reason why the counts
/// disagree.
pub fn compare_counts(
    row: OptionRow,
    claims: &[ReportedCounts],
    [near, far]: [RowReadings; 2],
    slack: CountTolerance,
) -> Result<f64, String> {
    let omitted = if row.has("-O") { slack.omitted_bytes } else { 0.0 };
    let mut dropped = 0.0_f64;
    for counts in claims {
        let (name, from, to) = if counts.is_reverse {
            ("to the near end", far, near)
        } else {
            ("to the far end", near, far)
        };
        check_receiver(row, counts, &to, omitted).map_err(|why| format!("{name}: {why}"))?;
        let checked = check_sender(row, counts, &from, omitted, slack.buffer_bytes);
        dropped = dropped.max(checked.map_err(|why| format!("{name}: {why}"))?);
    }
    Ok(dropped)
}

/// Returns the length of the headers: IP, and TCP with timestamps or UDP.
fn header_bytes(row: OptionRow) -> f64 {
    let ip = if row.is_ipv6() { 40.0 } else { 20.0 };
    ip + if row.is_udp() { 8.0 } else { 32.0 }
}

fn check_receiver(
    row: OptionRow,
    counts: &ReportedCounts,
    device: &RowReadings,
    omitted: f64,
) -> Result<(), String> {
    let Some(received) = counts.received else {
        return Ok(());
    };
    let payload =
        |to: DeviceCounters| to.received.payload_since(device.before.received, header_bytes(row));
    let most = payload(device.after);
    let at_end = device.at_end.map_or(most, payload).min(most);
    let again = counts.retransmits * SEGMENT_BYTES;
    let missing = again + counts.lost_bytes + uncounted_bytes(row, device.uncounted.received);
    if is_within(received, at_end - missing, most, omitted) {
        return Ok(());
    }
    Err(format!(
        "{received:.0} bytes reported by the receiver; its device had {at_end:.0} when the end was \
         announced, {most:.0} in all, {missing:.0} of them again, lost or not counted"
    ))
}

/// Returns the share of bytes that were counted and never sent.
fn check_sender(
    row: OptionRow,
    counts: &ReportedCounts,
    device: &RowReadings,
    omitted: f64,
    buffer_bytes: f64,
) -> Result<f64, String> {
    let Some(sent) = counts.sent else {
        return Ok(0.0);
    };
    let most = device.after.sent.payload_since(device.before.sent, header_bytes(row));
    let again = counts.retransmits * SEGMENT_BYTES;
    let least = most - again - uncounted_bytes(row, device.uncounted.sent);
    if is_within(sent, least, most, omitted) {
        return Ok(0.0);
    }
    let over = sent - most;
    if !row.is_udp() && over > 0.0 && over <= row.streams() * buffer_bytes {
        return Ok(over / most);
    }
    Err(format!(
        "{sent:.0} bytes reported by the sender; its device sent {most:.0}, {again:.0} of them again"
    ))
}

fn is_within(value: f64, least: f64, most: f64, room: f64) -> bool {
    value >= least * (1.0 - TOLERANCE) - room && value <= most * (1.0 + TOLERANCE) + room
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interop_matrix::device_counters::DeviceTraffic;

    const ROW: OptionRow = OptionRow { text: "-t 2" };
    const SLACK: CountTolerance = CountTolerance { buffer_bytes: 50_000.0, omitted_bytes: 0.0 };

    fn carried(bytes: u64) -> DeviceCounters {
        // Ten packets with their headers.
        let traffic = DeviceTraffic { bytes: bytes + 520, packets: 10 };
        DeviceCounters { received: traffic, sent: traffic }
    }

    fn found(sent: f64, received: f64) -> Result<f64, String> {
        let device = RowReadings {
            before: DeviceCounters::default(),
            at_end: Some(carried(900_000)),
            after: carried(1_000_000),
            uncounted: UncountedBlocks::default(),
        };
        let counts = ReportedCounts {
            sent: Some(sent),
            received: Some(received),
            ..ReportedCounts::default()
        };
        compare_counts(ROW, &[counts], [device; 2], SLACK)
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
