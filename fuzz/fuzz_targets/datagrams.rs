//! Datagrams as they come, at a server's port and at the ends of UDP flows: no panic, the counts
//! stay within what came, and records of trains fit their plans.

#![no_main]

use libfuzzer_sys::arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use longhaul_iperf3::iperf3_messages::UdpGreeting;
use longhaul_model::report::v1::available::{TrainPlan, TrainPurpose, TrainSchedule};
use longhaul_probe::engine::{CounterWidth, DatagramFormat, DatagramHeader, DatagramTracker};
use longhaul_probe::probing::{
    DatagramArrival, DatagramKind, ProbeDatagramHeader, TrainRecorder, join_trains,
};
use longhaul_probe::wire::{
    DATAGRAM_ACKNOWLEDGED, DATAGRAM_HELLO, PacketTimes, ReceivedTrains, SentTrain, StreamPreamble,
};
use std::time::Duration;

const FORMATS: [DatagramFormat; 3] = [
    DatagramFormat::Longhaul,
    DatagramFormat::Numbered(CounterWidth::Bits32),
    DatagramFormat::Numbered(CounterWidth::Bits64),
];

fuzz_target!(|bytes: &[u8]| {
    read_datagram(bytes);
    let mut input = Unstructured::new(bytes);
    // A flow stops where the input ends.
    let _ = match bytes.first().copied().unwrap_or_default() % 2 {
        0 => receive_stream(&mut input),
        _ => receive_trains(&mut input),
    };
});

/// As the port of a server and the sockets of probers read it.
fn read_datagram(bytes: &[u8]) {
    for magic in [DATAGRAM_HELLO, DATAGRAM_ACKNOWLEDGED] {
        if let Some(preamble) = StreamPreamble::decode(bytes, magic) {
            assert_eq!(preamble.encode(magic), bytes);
        }
    }
    if let Some(greeting) = UdpGreeting::from_hello(bytes) {
        assert!(UdpGreeting::is_answer(&greeting.answer()));
    }
    if let Some(header) = ProbeDatagramHeader::read(bytes) {
        let mut again = bytes.to_vec();
        header.write(&mut again);
        assert_eq!(again, bytes);
    }
    for format in FORMATS {
        if let Some(header) = format.read(bytes) {
            let mut again = bytes.to_vec();
            format.write(header, &mut again);
            assert_eq!(format.read(&again).map(|it| it.sequence), Some(header.sequence));
        }
    }
}

/// The datagrams of one stream: near the newest number, or of any number.
fn receive_stream(input: &mut Unstructured<'_>) -> Result<()> {
    let format = FORMATS[usize::from(u8::arbitrary(input)?) % FORMATS.len()];
    let mut tracker = DatagramTracker::default();
    let (mut newest, mut count) = (0_u64, 0);
    while !input.is_empty() {
        let step = u8::arbitrary(input)?;
        let sequence = match step % 4 {
            0 => input.arbitrary()?,
            1 => newest.wrapping_sub(u64::from(u16::arbitrary(input)?)),
            2 => newest.wrapping_add(u64::from(u32::arbitrary(input)?)),
            _ => newest.wrapping_add(1),
        };
        let sent_ns = if step & 4 == 0 { input.arbitrary()? } else { newest };
        let header = DatagramHeader { stream: 0, last: step & 0xf8 == 8, sequence, sent_ns };
        let read = match format {
            DatagramFormat::Longhaul => Some(header),
            // As its width lets it through.
            numbered => {
                let mut datagram = [0; 16];
                (sequence < u64::MAX).then(|| numbered.write(header, &mut datagram));
                numbered.read(&datagram)
            }
        };
        let Some(read) = read else { continue };
        newest = newest.max(read.sequence);
        let is_new = tracker.record(read, Duration::from_nanos(input.arbitrary()?));
        count += u64::from(is_new);
    }
    let counts = tracker.udp_counts();
    assert_eq!(counts.datagrams, count);
    assert!(counts.out_of_order.is_some_and(|it| it <= count));
    assert!(!tracker.is_complete() || tracker.has_end());
    Ok(())
}

/// The datagrams of trains, and the record of their sender.
fn receive_trains(input: &mut Unstructured<'_>) -> Result<()> {
    let plans: Vec<TrainPlan> = (0..input.int_in_range(1..=4)?)
        .map(|index| {
            Ok(TrainPlan {
                index,
                purpose: TrainPurpose::Burst,
                packets: input.int_in_range(1..=200)?,
                packet_bytes: 1500,
                schedule: TrainSchedule::BackToBack,
                pause_us: 0,
            })
        })
        .collect::<Result<_>>()?;
    let sent = read_sent_trains(&plans, input)?;
    let mut recorder = TrainRecorder::default();
    recorder.arm(&plans, input.arbitrary()?);
    let end = record_datagrams(&mut recorder, input);
    let complete = recorder.is_complete();
    let received = recorder.take_received();
    assert!(!complete || received.trains.iter().all(has_all_times));
    check_joined(&plans, &sent, &received);
    end
}

fn has_all_times(train: &longhaul_probe::wire::ReceivedTrain) -> bool {
    train.times.steps.iter().all(Option::is_some)
}

fn read_sent_trains(plans: &[TrainPlan], input: &mut Unstructured<'_>) -> Result<Vec<SentTrain>> {
    let mut sent = Vec::new();
    for plan in plans {
        let (any_times, spoilt) = (input.ratio(1, 4)?, input.ratio(1, 8)?);
        let steps = match any_times {
            true => input.arbitrary()?,
            false => {
                (0..plan.packets).map(|number| Some(i64::from(number.min(1)) * 1000)).collect()
            }
        };
        sent.push(SentTrain {
            index: plan.index,
            micro_burst_packets: input.arbitrary()?,
            times: PacketTimes { first_ns: input.arbitrary()?, steps },
            spoilt: spoilt.then(|| "late".to_owned()),
        });
    }
    Ok(sent)
}

fn record_datagrams(recorder: &mut TrainRecorder, input: &mut Unstructured<'_>) -> Result<()> {
    while !input.is_empty() {
        let step = u8::arbitrary(input)?;
        if step % 16 == 0 {
            recorder.record_clock_offset(input.arbitrary()?);
            continue;
        }
        let header = ProbeDatagramHeader {
            kind: DatagramKind::Train,
            session: 7,
            train: u32::from(step % 5),
            index: u32::from(u8::arbitrary(input)?),
            sent_ns: 0,
            there_received_ns: 0,
            there_sent_ns: 0,
        };
        let ns: u64 = input.arbitrary()?;
        recorder.record(
            &header,
            DatagramArrival {
                kernel: (step & 0x20 == 0).then(|| Duration::from_nanos(ns)),
                read_ns: ns,
                overflowed: (step & 0x40 != 0).then_some(u32::from(step)),
            },
        );
    }
    Ok(())
}

fn check_joined(plans: &[TrainPlan], sent: &[SentTrain], received: &ReceivedTrains) {
    for (plan, train) in plans.iter().zip(join_trains(plans, sent, received)) {
        assert_eq!(train.sent_ns.len(), plan.packets as usize);
        assert_eq!(train.received_ns.len(), plan.packets as usize);
        assert!(train.sent_ns.is_sorted());
    }
}
