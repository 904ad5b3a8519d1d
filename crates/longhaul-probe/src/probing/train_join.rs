//! Joins the sender's and the receiver's record of each train for the report.
//!
//! One of the two records comes from the server and is not trusted: times that run backwards, do
//! not match the plan or span hours spoil the train, and nothing else.

use crate::wire::{PacketTimes, ReceivedTrain, ReceivedTrains, SentTrain};
use longhaul_model::report::v1::available::{ProbeTrain, TrainPlan, TrainSchedule};

/// Maximum movement of the wall clock against the monotonic one within a valid train.
const MAX_CLOCK_STEP_NS: u64 = 20_000;
/// Maximum duration of a valid train, even with very deep queues.
const MAX_TRAIN_NS: u64 = 180_000_000_000;

/// Joins the records of all trains, in plan order.
pub fn join_trains(
    plans: &[TrainPlan],
    sent: &[SentTrain],
    seen: &ReceivedTrains,
) -> Vec<ProbeTrain> {
    let one = |plan: &TrainPlan| {
        let sent = sent.iter().find(|train| train.index == plan.index);
        let received = seen.trains.iter().find(|train| train.index == plan.index);
        join_train(plan, sent, received, seen.clock == "kernel")
    };
    plans.iter().map(one).collect()
}

fn join_train(
    plan: &TrainPlan,
    sent: Option<&SentTrain>,
    received: Option<&ReceivedTrain>,
    by_kernel: bool,
) -> ProbeTrain {
    let packets = plan.packets as usize;
    let sends =
        sent.map_or(Err("its send times are missing"), |sent| checked_send_times(sent, packets));
    let receives = received.map_or(Err("its receive times are missing"), |received| {
        checked_receive_times(&received.times, packets)
    });
    let told = sent.and_then(|sent| sent.spoilt.clone());
    let ill = [sends.as_ref().err(), receives.as_ref().err()];
    let spoilt = told
        .or_else(|| ill.into_iter().flatten().next().map(|why| (*why).to_owned()))
        .or_else(|| find_disturbance(received, by_kernel));
    // Unreadable records count as nothing received, so that they are not analysed.
    let sends = sends.unwrap_or_else(|_| vec![0; packets]);
    let receives = receives.unwrap_or_else(|_| vec![None; packets]);
    let sent_at_ns = sends.first().copied().unwrap_or(0);
    let received_at_ns = receives.iter().flatten().min().copied().unwrap_or(0);
    ProbeTrain {
        index: plan.index,
        purpose: plan.purpose,
        packet_bytes: plan.packet_bytes,
        rate_bps: match plan.schedule {
            TrainSchedule::RateBps(rate) => Some(rate),
            TrainSchedule::BackToBack | TrainSchedule::Poisson { .. } => None,
        },
        micro_burst_packets: sent
            .map_or(1, |sent| sent.micro_burst_packets.clamp(1, plan.packets.max(1))),
        sent_at_ns,
        sent_ns: sends.iter().map(|time| time - sent_at_ns).collect(),
        received_at_ns,
        received_ns: receives.iter().map(|time| time.map(|time| time - received_at_ns)).collect(),
        clock_step_ns: received.and_then(|train| train.clock_step_ns),
        spoilt,
    }
}

/// Returns the send times, which must not run backwards.
fn checked_send_times(sent: &SentTrain, packets: usize) -> Result<Vec<u64>, &'static str> {
    let times = sent.times.decode().ok_or("its send times are invalid")?;
    let mut times: Vec<u64> = times.into_iter().flatten().collect();
    if times.len() != packets && sent.spoilt.is_none() || times.len() > packets {
        return Err("its send times do not match the plan");
    }
    if !times.is_sorted() {
        return Err("its send times go backwards");
    }
    if time_span(times.first(), times.last()) > MAX_TRAIN_NS {
        return Err("its send times span minutes");
    }
    let last = times.last().copied().unwrap_or(0);
    times.resize(packets, last);
    Ok(times)
}

/// Returns the receive times. Some packets may be reordered, but not most.
fn checked_receive_times(
    times: &PacketTimes,
    packets: usize,
) -> Result<Vec<Option<u64>>, &'static str> {
    let times = times.decode().ok_or("its receive times are invalid")?;
    if times.len() != packets {
        return Err("its receive times do not match the plan");
    }
    let came: Vec<u64> = times.iter().flatten().copied().collect();
    let backwards = came.windows(2).filter(|pair| pair[1] < pair[0]).count();
    if backwards * 2 > came.len() {
        return Err("its receive times go backwards");
    }
    let (first, last) = (came.iter().min(), came.iter().max());
    if time_span(first, last) > MAX_TRAIN_NS {
        return Err("its receive times span minutes");
    }
    if came.len() > 2 && first == last {
        return Err("all its packets have the same receive time");
    }
    Ok(times)
}

fn time_span(first: Option<&u64>, last: Option<&u64>) -> u64 {
    last.zip(first).map_or(0, |(last, first)| last - first)
}

fn find_disturbance(received: Option<&ReceivedTrain>, by_kernel: bool) -> Option<String> {
    let received = received?;
    let step = received.clock_step_ns.unwrap_or(0);
    if step.unsigned_abs() > MAX_CLOCK_STEP_NS {
        return Some(format!("the receiver's clock was stepped by {step} ns during the train"));
    }
    if received.overflowed {
        return Some("the receiver's buffer overflowed".to_owned());
    }
    (!by_kernel).then(|| "the receiver's kernel provided no timestamps".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::report::v1::available::TrainPurpose;
    use proptest::prelude::*;

    fn plan(packets: u32) -> TrainPlan {
        TrainPlan {
            index: 4,
            purpose: TrainPurpose::Sweep,
            packets,
            packet_bytes: 1500,
            schedule: TrainSchedule::RateBps(10_000_000),
            pause_us: 0,
        }
    }

    fn sent(times: &[u64]) -> SentTrain {
        let times: Vec<_> = times.iter().copied().map(Some).collect();
        SentTrain {
            index: 4,
            micro_burst_packets: 1,
            times: PacketTimes::encode(&times),
            spoilt: None,
        }
    }

    fn seen(times: &[Option<u64>]) -> ReceivedTrains {
        ReceivedTrains {
            clock: "kernel".to_owned(),
            trains: vec![ReceivedTrain {
                index: 4,
                times: PacketTimes::encode(times),
                clock_step_ns: Some(10),
                overflowed: false,
            }],
            overflowed: Some(0),
        }
    }

    fn joined(sends: &[u64], receives: &[Option<u64>]) -> ProbeTrain {
        let trains = join_trains(&[plan(sends.len() as u32)], &[sent(sends)], &seen(receives));
        trains.into_iter().next().expect("one train")
    }

    #[test]
    fn times_count_from_the_first_of_each_end() {
        let train = joined(&[100, 200, 300], &[Some(7000), None, Some(7150)]);
        assert_eq!((train.sent_at_ns, train.received_at_ns), (100, 7000));
        assert_eq!(train.sent_ns, [0, 100, 200]);
        assert_eq!(train.received_ns, [Some(0), None, Some(150)]);
        assert_eq!((train.rate_bps, train.spoilt), (Some(10_000_000), None));
    }

    #[test]
    fn a_lie_spoils_the_train_and_says_so() {
        let minutes = 200_000_000_000;
        for (sends, receives, why) in [
            (&[5, 4, 3][..], &[Some(1), Some(2), Some(3)][..], "backwards"),
            (&[1, 2, 3], &[Some(9), Some(5), Some(1)], "backwards"),
            (&[1, 2, 3], &[Some(1), Some(2)], "plan"),
            (&[1, 2, 3], &[Some(1), Some(2), Some(minutes)], "minutes"),
            (&[1, 2, minutes], &[Some(1), Some(2), Some(3)], "minutes"),
            (&[1, 2, 3], &[Some(8), Some(8), Some(8)], "same receive time"),
        ] {
            let train = joined(sends, receives);
            let spoilt = train.spoilt.expect(why);
            assert!(spoilt.contains(why), "{spoilt}");
            assert_eq!((train.sent_ns.len(), train.received_ns.len()), (3, 3));
        }
    }

    #[test]
    fn a_step_of_the_clock_and_times_of_user_space_spoil_it_too() {
        let times = [Some(1), Some(2)];
        let mut stepped = seen(&times);
        stepped.trains[0].clock_step_ns = Some(-30_000);
        let mut by_user = seen(&times);
        by_user.clock = "user".to_owned();
        let mut full = seen(&times);
        full.trains[0].overflowed = true;
        for (seen, why) in [(stepped, "clock"), (by_user, "kernel"), (full, "buffer")] {
            let trains = join_trains(&[plan(2)], &[sent(&[1, 2])], &seen);
            let spoilt = trains[0].spoilt.clone().expect(why);
            assert!(spoilt.contains(why), "{spoilt}");
        }
        let nobody = join_trains(&[plan(2)], &[], &ReceivedTrains::default());
        assert!(nobody[0].spoilt.is_some());
    }

    proptest! {
        #[test]
        fn whatever_a_peer_says_the_arrays_fit_the_plan(
            packets in 1..20_u32,
            first: (u64, u64),
            sends in prop::collection::vec(prop::option::of(any::<i64>()), 0..25),
            receives in prop::collection::vec(prop::option::of(-1000..1000_i64), 0..25),
            micro_burst_packets: u32,
        ) {
            let sent = SentTrain {
                index: 4,
                micro_burst_packets,
                times: PacketTimes { first_ns: first.0, steps: sends },
                spoilt: None,
            };
            let mut seen = seen(&[]);
            seen.trains[0].times = PacketTimes { first_ns: first.1, steps: receives };
            let trains = join_trains(&[plan(packets)], &[sent], &seen);
            prop_assert_eq!(trains[0].sent_ns.len(), packets as usize);
            prop_assert_eq!(trains[0].received_ns.len(), packets as usize);
            prop_assert!(trains[0].sent_ns.is_sorted());
            prop_assert!((1..=packets).contains(&trains[0].micro_burst_packets));
        }
    }
}
