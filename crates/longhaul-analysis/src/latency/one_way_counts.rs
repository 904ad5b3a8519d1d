//! Loss, duplicates and reordering of each direction, from the numbers of a reflector that counts.
//!
//! A stateful reflector numbers its answers from 0 in the order in which packets reach it, and
//! answers each copy. So gaps in its numbers are answers lost on the way back, and packets that it
//! did not count were lost on the way there. What was lost after the last answer is in neither count.
//!
//! Source: RFC 8762, section 4.3.1; RFC 4737, section 3 (reordering: a number below the expected
//! one). Units: packets. Error: losses before the first answer, if the reflector counted before
//! this session. Wrong when: the reflector forgets the session within the run.

use longhaul_model::report::v1::latency::{LatencyPacket, OneWayCounts};
use std::collections::{BTreeMap, BTreeSet};

/// An answer with the place of its packet.
#[derive(Debug, Clone, Copy)]
struct NumberedAnswer {
    packet: u32,
    sequence: u32,
    received_ns: u64,
}

/// Returns whether the reflector counts: `None` if its numbers are those of the packets, as of a
/// reflector that repeats them, and of one to which all packets came in order.
pub(super) fn find_reflector_count(packets: &[LatencyPacket]) -> Option<bool> {
    let mut numbers = (0..).zip(packets);
    let differs = |(number, packet): (u32, &LatencyPacket)| {
        packet.answers.iter().any(|answer| answer.sequence_number != number)
    };
    numbers.any(differs).then_some(true)
}

/// Returns the number of answers that came after that of a later packet, by these numbers in the
/// order of arrival.
fn count_reordered(numbers: impl Iterator<Item = u32>) -> u32 {
    let mut highest = None;
    let late = numbers.filter(|number| {
        let is_late = highest.is_some_and(|highest| *number < highest);
        highest = highest.max(Some(*number));
        is_late
    });
    late.count() as u32
}

/// Returns the reordered packets of the round trip: by their first answers.
pub(super) fn count_reordered_trips(packets: &[LatencyPacket]) -> u32 {
    let first = |(number, packet): (u32, &LatencyPacket)| {
        Some((packet.answers.first()?.received_ns, number))
    };
    let mut arrivals: Vec<(u64, u32)> = (0..).zip(packets).filter_map(first).collect();
    arrivals.sort_unstable();
    count_reordered(arrivals.into_iter().map(|(_, number)| number))
}

/// Returns the counts of both directions, by the numbers of a reflector that counts; `None` without
/// an answer.
pub(super) fn count_directions(packets: &[LatencyPacket]) -> Option<(OneWayCounts, OneWayCounts)> {
    let numbered = (0..).zip(packets).flat_map(|(number, packet): (u32, &LatencyPacket)| {
        packet.answers.iter().map(move |answer| NumberedAnswer {
            packet: number,
            sequence: answer.sequence_number,
            received_ns: answer.received_ns,
        })
    });
    let mut arrivals: Vec<NumberedAnswer> = numbered.collect();
    arrivals.sort_by_key(|answer| answer.received_ns);
    // A reflector whose numbers exceed what was sent has counted before this session.
    let earliest = arrivals.iter().min_by_key(|answer| (answer.packet, answer.sequence))?;
    let highest = arrivals.iter().map(|answer| answer.sequence).max()?;
    let has_counted = highest as usize >= packets.len() + arrivals.len();
    let base = if has_counted { earliest.sequence.saturating_sub(earliest.packet) } else { 0 };
    for answer in &mut arrivals {
        answer.sequence = answer.sequence.saturating_sub(base);
    }
    let sent = arrivals.iter().map(|answer| answer.packet).max()?.saturating_add(1);
    let reflected = arrivals.iter().map(|answer| answer.sequence).max()?.saturating_add(1);
    // By the reflector's numbers; of copies of an answer, one counts.
    let by_sequence: BTreeMap<u32, u32> =
        arrivals.iter().map(|answer| (answer.sequence, answer.packet)).collect();
    let reached: BTreeSet<u32> = by_sequence.values().copied().collect();
    let forward_copies = (by_sequence.len() - reached.len()) as u32;
    let came = reflected.saturating_sub(forward_copies);
    let mut seen = BTreeSet::new();
    let mut forward_seen = BTreeSet::new();
    let forward_first = by_sequence.values().copied().filter(|packet| forward_seen.insert(*packet));
    let forward = OneWayCounts {
        sent,
        lost: sent.saturating_sub(came),
        loss_ratio: ratio(sent.saturating_sub(came), sent),
        duplicates: forward_copies,
        reordered: count_reordered(forward_first),
    };
    let reverse_first = arrivals.iter().map(|it| it.sequence).filter(|number| seen.insert(*number));
    let reordered = count_reordered(reverse_first);
    let lost = reflected - by_sequence.len() as u32;
    let reverse = OneWayCounts {
        sent: reflected,
        lost,
        loss_ratio: ratio(lost, reflected),
        duplicates: (arrivals.len() - by_sequence.len()) as u32,
        reordered,
    };
    Some((forward, reverse))
}

fn ratio(part: u32, of: u32) -> f64 {
    f64::from(part) / f64::from(of.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::report::v1::latency::LatencyAnswer;

    /// Builds packets from the answers of each: the reflector's number and the time of arrival.
    fn packets(answers: &[&[(u32, u64)]]) -> Vec<LatencyPacket> {
        let answer = |&(sequence, received_ns): &(u32, u64)| LatencyAnswer {
            sequence_number: sequence,
            far_received_ns: 0,
            far_sent_ns: 0,
            received_ns,
        };
        let packet = |answers: &&[(u32, u64)]| LatencyPacket {
            sent_ns: 0,
            answers: answers.iter().map(answer).collect(),
        };
        answers.iter().map(packet).collect()
    }

    fn counts(sent: u32, lost: u32, duplicates: u32, reordered: u32) -> OneWayCounts {
        OneWayCounts { sent, lost, loss_ratio: ratio(lost, sent), duplicates, reordered }
    }

    #[test]
    fn losses_are_of_the_direction_whose_numbers_have_gaps() {
        // Packet 1 is lost on the way there, the answer to packet 2 on the way back.
        let run = packets(&[&[(0, 1)], &[], &[], &[(2, 4)], &[(3, 5)]]);
        assert_eq!(find_reflector_count(&run), Some(true));
        let (forward, reverse) = count_directions(&run).expect("answers");
        assert_eq!((forward, reverse), (counts(5, 1, 0, 0), counts(4, 1, 0, 0)));
    }

    #[test]
    fn what_follows_the_last_answer_is_in_no_direction() {
        let (forward, reverse) = count_directions(&packets(&[&[(0, 1)], &[], &[]])).expect("one");
        assert_eq!((forward, reverse), (counts(1, 0, 0, 0), counts(1, 0, 0, 0)));
    }

    #[test]
    fn copies_of_a_packet_have_numbers_of_their_own_and_copies_of_an_answer_do_not() {
        let run = packets(&[&[(0, 1), (1, 2)], &[(2, 3), (2, 4)], &[(3, 5)]]);
        let (forward, reverse) = count_directions(&run).expect("answers");
        assert_eq!((forward, reverse), (counts(3, 0, 1, 0), counts(4, 0, 1, 0)));
    }

    #[test]
    fn the_order_at_the_reflector_is_that_of_its_numbers() {
        // Packet 1 overtakes packet 0 on the way there; the answers to 2 and 3 cross.
        let run = packets(&[&[(1, 2)], &[(0, 1)], &[(2, 5)], &[(3, 4)]]);
        let (forward, reverse) = count_directions(&run).expect("answers");
        assert_eq!((forward.reordered, reverse.reordered), (1, 1));
        assert_eq!(count_reordered_trips(&run), 2);
    }

    #[test]
    fn a_reflector_may_have_counted_before() {
        let run = packets(&[&[(100, 1)], &[], &[(101, 3)]]);
        let (forward, reverse) = count_directions(&run).expect("answers");
        assert_eq!((forward, reverse), (counts(3, 1, 0, 0), counts(2, 0, 0, 0)));
    }

    #[test]
    fn repeated_numbers_do_not_tell() {
        assert_eq!(find_reflector_count(&packets(&[&[(0, 1)], &[], &[(2, 3)]])), None);
        assert_eq!(count_directions(&packets(&[&[], &[]])), None);
    }
}
