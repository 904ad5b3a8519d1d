//! Checks the reported byte counts against what the devices carried, within two per cent.
//!
//! Payload is what a device carried minus the headers of its packets. The comparison respects how
//! each end counts:
//!
//! - A receiver counts until it is told to stop. It must have counted at least what its device had
//!   received at that moment, and no more than what arrived in total. iperf3 counts whole blocks,
//!   as receiver and as sender: one for each stream may be missing ([`Uncounted`]).
//! - A sender counts what it wrote. That leaves its device, unless the connection is reset while
//!   payload is still in the send buffer: then the sender reports more than it sent, by at most
//!   what its buffers hold. Such a row passes and is marked.
//! - Retransmits pass a device twice and are counted once; datagrams that the receiver reports as
//!   lost may have been lost behind its device.

use super::claims::{Claims, Told};
use super::marks::Carried;
use super::rows::Row;

const TOLERANCE: f64 = 0.02;
/// The payload of a full segment with timestamps.
const SEGMENT_BYTES: f64 = 1448.0;

/// The counters of both ends' devices before a row, at its end, and after it.
#[derive(Debug, Clone, Copy)]
pub struct Devices {
    pub near: Course,
    pub far: Course,
}

#[derive(Debug, Clone, Copy)]
pub struct Course {
    pub before: Carried,
    pub at_end: Option<Carried>,
    pub after: Carried,
}

/// The comparison of a completed row with the devices.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    Alike,
    /// The sender counted bytes that never left, as a share of those that did.
    Dropped(f64),
    Apart(String),
}

/// Tolerances that follow from the path.
#[derive(Debug, Clone, Copy)]
pub struct Slack {
    /// The capacity of a connection's send buffer.
    pub buffer_bytes: f64,
    /// The bytes that pass in one RTT at the rate of the path.
    pub round_trip_bytes: f64,
    /// The bytes that pass in a tenth of a second.
    pub sample_bytes: f64,
    pub uncounted_far: Uncounted,
    pub uncounted_near: Uncounted,
}

/// The bytes that each stream of an end may have transferred without counting them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Uncounted {
    pub sent: f64,
    pub received: f64,
}

/// Compares all counts of a row.
pub fn compare(row: Row, claims: &Claims, devices: &Devices, slack: Slack) -> Found {
    let forward = claims.forward.map(|told| Direction {
        name: "to the far end",
        told,
        sender_drops: row.streams() * slack.uncounted_near.sent,
        receiver_drops: row.streams() * slack.uncounted_far.received,
        sent: Sums::new(devices.near, row, true),
        received: Sums::new(devices.far, row, false),
    });
    let reverse = claims.reverse.map(|told| Direction {
        name: "to the near end",
        told,
        sender_drops: row.streams() * slack.uncounted_far.sent,
        receiver_drops: row.streams() * slack.uncounted_near.received,
        sent: Sums::new(devices.far, row, true),
        received: Sums::new(devices.near, row, false),
    });
    let mut dropped = 0.0_f64;
    for direction in [forward, reverse].into_iter().flatten() {
        if let Err(why) = direction.receiver(row, slack) {
            return Found::Apart(why);
        }
        match direction.sender(row, slack) {
            Ok(share) => dropped = dropped.max(share),
            Err(why) => return Found::Apart(why),
        }
    }
    if dropped > 0.0 {
        Found::Dropped(dropped)
    } else {
        Found::Alike
    }
}

/// The payload that passed a device in one direction.
#[derive(Debug, Clone, Copy)]
struct Sums {
    at_end: f64,
    all: f64,
}

impl Sums {
    fn new(course: Course, row: Row, sent: bool) -> Sums {
        let payload = |to: Carried| {
            let (bytes, packets) = if sent {
                (
                    to.sent_bytes - course.before.sent_bytes,
                    to.sent_packets - course.before.sent_packets,
                )
            } else {
                (
                    to.received_bytes - course.before.received_bytes,
                    to.received_packets - course.before.received_packets,
                )
            };
            bytes as f64 - packets as f64 * header_bytes(row)
        };
        let all = payload(course.after);
        Sums {
            at_end: course.at_end.map_or(all, payload).min(all),
            all,
        }
    }
}

/// Returns the length of the headers: IP, and TCP with timestamps or UDP.
fn header_bytes(row: Row) -> f64 {
    let ip = if row.is_ipv6() { 40.0 } else { 20.0 };
    ip + if row.is_udp() { 8.0 } else { 32.0 }
}

#[derive(Debug)]
struct Direction {
    name: &'static str,
    told: Told,
    /// The bytes that the sender may have written without counting them.
    sender_drops: f64,
    /// The bytes that the receiver may have received without counting them.
    receiver_drops: f64,
    sent: Sums,
    received: Sums,
}

impl Direction {
    fn receiver(&self, row: Row, slack: Slack) -> Result<(), String> {
        let Some(received) = self.told.received else {
            return Ok(());
        };
        let again = self.told.retransmits * SEGMENT_BYTES;
        let missing = again + self.told.lost_bytes + self.receiver_drops;
        let least = self.received.at_end - missing;
        let most = self.received.all;
        if within(received, least, most, omit(row, slack)) {
            return Ok(());
        }
        Err(format!(
            "{}: {received:.0} bytes told by the receiver; its device had {:.0} when the end was \
             told, {most:.0} in all, {missing:.0} of them again, lost or not counted",
            self.name, self.received.at_end,
        ))
    }

    /// Returns the share of bytes that were counted and never sent.
    fn sender(&self, row: Row, slack: Slack) -> Result<f64, String> {
        let Some(sent) = self.told.sent else {
            return Ok(0.0);
        };
        let again = self.told.retransmits * SEGMENT_BYTES;
        let most = self.sent.all;
        let least = most - again - self.sender_drops;
        if within(sent, least, most, omit(row, slack)) {
            return Ok(0.0);
        }
        let over = sent - most;
        if !row.is_udp() && over > 0.0 && over <= row.streams() * slack.buffer_bytes {
            return Ok(over / most);
        }
        Err(format!(
            "{}: {sent:.0} bytes told by the sender; its device sent {most:.0}, {again:.0} of \
             them again",
            self.name,
        ))
    }
}

/// Returns the payload by which the ends' omitted seconds may differ: they start at most an RTT and
/// a sample of 100 ms apart.
fn omit(row: Row, slack: Slack) -> f64 {
    if row.has("-O") {
        slack.round_trip_bytes + slack.sample_bytes
    } else {
        0.0
    }
}

fn within(value: f64, least: f64, most: f64, room: f64) -> bool {
    value >= least * (1.0 - TOLERANCE) - room && value <= most * (1.0 + TOLERANCE) + room
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: Row = Row { text: "-t 2" };
    const SLACK: Slack = Slack {
        buffer_bytes: 50_000.0,
        round_trip_bytes: 0.0,
        sample_bytes: 0.0,
        uncounted_far: Uncounted {
            sent: 0.0,
            received: 0.0,
        },
        uncounted_near: Uncounted {
            sent: 0.0,
            received: 0.0,
        },
    };

    fn carried(bytes: u64) -> Carried {
        // Ten packets with their headers.
        Carried {
            received_bytes: bytes + 520,
            received_packets: 10,
            sent_bytes: bytes + 520,
            sent_packets: 10,
        }
    }

    fn devices() -> Devices {
        let course = Course {
            before: Carried::default(),
            at_end: Some(carried(900_000)),
            after: carried(1_000_000),
        };
        Devices {
            near: course,
            far: course,
        }
    }

    fn found(sent: f64, received: f64) -> Found {
        let told = Told {
            sent: Some(sent),
            received: Some(received),
            ..Told::default()
        };
        let claims = Claims {
            forward: Some(told),
            reverse: None,
        };
        compare(ROW, &claims, &devices(), SLACK)
    }

    #[test]
    fn a_receiver_may_count_what_came_after_the_end_or_not() {
        for received in [890_000.0, 1_000_000.0, 1_010_000.0] {
            assert_eq!(found(1_000_000.0, received), Found::Alike, "{received}");
        }
        for received in [870_000.0, 1_030_000.0] {
            assert!(
                matches!(found(1_000_000.0, received), Found::Apart(_)),
                "{received}"
            );
        }
    }

    #[test]
    fn a_sender_may_count_only_what_left_or_its_buffer() {
        assert_eq!(found(990_000.0, 950_000.0), Found::Alike);
        assert_eq!(found(1_040_000.0, 950_000.0), Found::Dropped(0.04));
        for sent in [970_000.0, 1_060_000.0] {
            assert!(matches!(found(sent, 950_000.0), Found::Apart(_)), "{sent}");
        }
    }
}
