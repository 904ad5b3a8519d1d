//! Properties of the wire: what was framed comes out again however it is cut, and what is no
//! frame neither panics nor takes memory beyond the limit.

use longhaul_model::foreign_text::sanitize_foreign;
use longhaul_model::report::v1::available::{TrainPlan, TrainPurpose, TrainSchedule};
use longhaul_model::report::v1::observation::{EndObservation, StreamEnd, StreamSample};
use longhaul_model::report::v1::plan::{RunDirection, StopCondition, ThroughputPlan};
use longhaul_model::report::v1::{ReportCaveat, RunParty};
use longhaul_probe::plan_limits::MAX_ASK_PACKETS;
use longhaul_probe::probing::ProbeDatagramHeader;
use longhaul_probe::wire::{
    AnonymousLimits, Base64Bytes, ByeReason, CollectTrains, ControlMessage, DATA_STREAM,
    DirectionResult, FrameSplitter, HelloMessage, IntervalCounters, MAX_FRAME_BYTES,
    MAX_RESULT_BYTES, PacketTimes, PrepareMessage, ProbeBounds, ProbeProposal, ProtocolVersions,
    ReceivedTrain, ReceivedTrains, RunProposal, SessionNonce, SessionReply, SessionRequest,
    StreamPreamble, StreamResult, TokenProof, WelcomeMessage, WireError, encode_frame,
};
use proptest::prelude::*;

/// Texts that a receiver leaves as they are.
fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec(any::<char>(), 0..40)
        .prop_map(|chars| sanitize_foreign(&String::from_iter(chars)).into_owned())
}

fn maybe<T: std::fmt::Debug + Clone>(
    some: impl Strategy<Value = T>,
) -> impl Strategy<Value = Option<T>> {
    proptest::option::of(some)
}

fn plan() -> impl Strategy<Value = ThroughputPlan> {
    let stop = prop_oneof![
        any::<u64>().prop_map(StopCondition::TimeUs),
        any::<u64>().prop_map(StopCondition::Bytes),
        any::<u64>().prop_map(StopCondition::Blocks),
    ];
    (any::<u32>(), stop, maybe(text()), maybe(any::<u64>())).prop_map(
        |(streams, stop, congestion_control, send_buffer_bytes)| ThroughputPlan {
            direction: RunDirection::Both,
            streams,
            stop,
            congestion_control,
            send_buffer_bytes,
            ..ThroughputPlan::default()
        },
    )
}

fn small() -> impl Strategy<Value = ControlMessage> {
    let limits = (any::<u64>(), any::<u32>(), maybe(any::<u64>())).prop_map(
        |(seconds, streams, rate_bps)| AnonymousLimits {
            seconds,
            streams,
            rate_bps,
            ..AnonymousLimits::default()
        },
    );
    prop_oneof![
        (any::<u16>(), any::<u16>(), text()).prop_map(|(least, most, longhaul)| {
            let versions = ProtocolVersions { least, most };
            ControlMessage::Hello(HelloMessage { versions, longhaul })
        }),
        maybe(text()).prop_map(|token_proof| ControlMessage::Proof(TokenProof { token_proof })),
        (maybe(text()), text(), maybe(limits)).prop_map(|(token_proof, host, limits)| {
            let party = RunParty { host, ..RunParty::default() };
            let boot_proof = None;
            ControlMessage::Welcome(WelcomeMessage { token_proof, party, boot_proof, limits })
        }),
        any::<[u8; 16]>().prop_map(|nonce| ControlMessage::Accept { nonce: SessionNonce(nonce) }),
        (any::<u32>(), any::<u64>())
            .prop_map(|(number, at_us)| ControlMessage::Pong { number, at_us }),
        any::<u32>().prop_map(|number| ControlMessage::Ping { number }),
        (any::<u64>(), any::<u64>(), any::<bool>()).prop_map(
            |(origin_us, idle_rtt_us, same_host)| {
                ControlMessage::Prepare(PrepareMessage { origin_us, idle_rtt_us, same_host })
            }
        ),
        (any::<u64>(), maybe(any::<u64>()), maybe(any::<u64>())).prop_map(
            |(elapsed_us, sent_bytes, received_bytes)| {
                ControlMessage::Interval(IntervalCounters {
                    elapsed_us,
                    sent_bytes,
                    received_bytes,
                })
            }
        ),
        text().prop_map(|what| ControlMessage::Bye(ByeReason::Refused(what))),
        proptest::sample::select(vec![
            ControlMessage::Opened,
            ControlMessage::Prepared,
            ControlMessage::Go,
            ControlMessage::Sent,
            ControlMessage::Drained,
            ControlMessage::Bye(ByeReason::Finished),
        ]),
    ]
}

fn large() -> impl Strategy<Value = ControlMessage> {
    let samples = proptest::collection::vec(any::<(u64, u64)>(), 0..20);
    prop_oneof![
        plan().prop_map(|plan| {
            let (party, boot_proof) = (RunParty::default(), None);
            ControlMessage::Propose(Box::new(RunProposal { plan, party, boot_proof }))
        }),
        (any::<bool>(), any::<u32>(), samples).prop_map(|(forward, index, samples)| {
            let sample = |(at_us, bytes)| StreamSample { at_us, bytes, ..StreamSample::default() };
            let samples = samples.into_iter().map(sample).collect();
            let end = StreamEnd { samples, ..StreamEnd::default() };
            ControlMessage::Stream(Box::new(StreamResult { forward, index, end }))
        }),
        (any::<bool>(), text()).prop_map(|(forward, told)| {
            let caveats = vec![ReportCaveat::new("told", told)];
            let end = EndObservation::default();
            ControlMessage::End(Box::new(DirectionResult { forward, end, caveats }))
        }),
    ]
}

fn probing() -> impl Strategy<Value = ControlMessage> {
    let bounds = (any::<u32>(), any::<u64>(), maybe(any::<u8>()));
    let times = proptest::collection::vec(maybe(any::<i64>()), 0..20);
    prop_oneof![
        bounds.prop_map(|(flows, most_bytes, dscp)| {
            let bounds = ProbeBounds { flows, most_bytes, most_time_us: most_bytes / 3, dscp };
            ControlMessage::Probe(Box::new(ProbeProposal {
                bounds,
                party: RunParty::default(),
                boot_proof: None,
            }))
        }),
        (any::<u32>(), any::<u32>(), any::<u64>()).prop_map(|(index, packets, seed)| {
            let train = TrainPlan {
                index,
                purpose: TrainPurpose::Idle,
                packets,
                packet_bytes: 100,
                schedule: TrainSchedule::Poisson { mean_gap_ns: seed / 2, seed },
                pause_us: 0,
            };
            ControlMessage::Ask(SessionRequest::Send(vec![train]))
        }),
        any::<u64>().prop_map(|wait_us| ControlMessage::Ask(SessionRequest::Collect(
            CollectTrains { wait_us }
        ))),
        (any::<u64>(), times, maybe(any::<i64>())).prop_map(|(first_ns, steps, clock_step_ns)| {
            let train = ReceivedTrain {
                index: 0,
                times: PacketTimes { first_ns, steps },
                clock_step_ns,
                overflowed: false,
            };
            ControlMessage::Answer(Box::new(SessionReply::Seen(ReceivedTrains {
                clock: "kernel".to_owned(),
                trains: vec![train],
                overflowed: None,
            })))
        }),
        text().prop_map(|why| ControlMessage::Answer(Box::new(SessionReply::Failed(why)))),
    ]
}

fn message() -> impl Strategy<Value = ControlMessage> {
    prop_oneof![small(), large(), probing()]
}

/// Decodes `bytes` in pieces of the lengths given, over and over.
fn decode(bytes: &[u8], pieces: &[usize]) -> Result<Vec<ControlMessage>, WireError> {
    let mut decoder = FrameSplitter::new(MAX_FRAME_BYTES);
    let mut messages = Vec::new();
    let mut rest = bytes;
    let mut lengths = pieces.iter().cycle();
    while !rest.is_empty() {
        let length = lengths.next().map_or(rest.len(), |length| (*length).min(rest.len()));
        let (mut piece, after) = rest.split_at(length);
        while !piece.is_empty() {
            match decoder.next_message(&mut piece)? {
                Some(message) => messages.push(message),
                None => assert!(piece.is_empty(), "bytes left and no message"),
            }
        }
        assert!(decoder.held_bytes() <= MAX_FRAME_BYTES + 4);
        rest = after;
    }
    Ok(messages)
}

proptest! {
    #[test]
    fn what_was_framed_comes_out_however_it_is_cut(
        messages in proptest::collection::vec(message(), 1..6),
        pieces in proptest::collection::vec(1_usize..50, 1..10),
    ) {
        let frames = messages.iter().map(|message| encode_frame(message, MAX_FRAME_BYTES));
        let bytes = frames.collect::<Result<Vec<_>, _>>().expect("small messages").concat();
        prop_assert_eq!(decode(&bytes, &pieces), Ok(messages));
    }

    #[test]
    fn arbitrary_bytes_neither_panic_nor_take_memory(
        bytes in proptest::collection::vec(any::<u8>(), 0..2000),
        pieces in proptest::collection::vec(1_usize..50, 1..10),
    ) {
        // The assertion inside bounds the memory; the result may be either.
        let _ = decode(&bytes, &pieces);
        let _ = ProbeDatagramHeader::read(&bytes);
        let _ = StreamPreamble::decode(&bytes, DATA_STREAM);
    }

    #[test]
    fn one_changed_byte_is_a_message_or_an_error(
        message in message(),
        place in any::<proptest::sample::Index>(),
        value in any::<u8>(),
    ) {
        let mut bytes = encode_frame(&message, MAX_FRAME_BYTES).expect("small messages");
        let place = place.index(bytes.len());
        bytes[place] = value;
        let _ = decode(&bytes, &[7]);
    }

    #[test]
    fn preambles_read_back(nonce in any::<[u8; 16]>(), index in any::<u16>(), forward in any::<bool>()) {
        let preamble = StreamPreamble { nonce: SessionNonce(nonce), index, forward };
        prop_assert_eq!(StreamPreamble::decode(&preamble.encode(DATA_STREAM), DATA_STREAM), Some(preamble));
    }
}

#[test]
fn lengths_over_the_limit_are_refused_at_once() {
    for length in [MAX_FRAME_BYTES as u32 + 1, u32::MAX] {
        let mut decoder = FrameSplitter::new(MAX_FRAME_BYTES);
        let error =
            decoder.next_message(&mut length.to_be_bytes().as_slice()).expect_err("too long");
        assert!(matches!(error, WireError::TooLong { .. }));
        assert!(decoder.held_bytes() < 1024);
    }
}

#[test]
fn deep_nesting_is_an_error_and_not_a_full_stack() {
    let body = vec![b'['; 60_000];
    let mut frame = (body.len() as u32).to_be_bytes().to_vec();
    frame.extend(body);
    let error = FrameSplitter::new(MAX_FRAME_BYTES).next_message(&mut frame.as_slice());
    assert!(matches!(error, Err(WireError::Malformed { .. })), "{error:?}");
}

#[test]
fn the_golden_frames_of_the_document_are_what_is_sent() {
    for (message, body) in [
        (
            ControlMessage::Hello(HelloMessage {
                versions: ProtocolVersions::OURS,
                longhaul: "0.2.0".into(),
            }),
            r#"{"hello":{"versions":{"least":4,"most":5},"longhaul":"0.2.0"}}"#,
        ),
        (
            ControlMessage::Ask(SessionRequest::Collect(CollectTrains { wait_us: 60_000 })),
            r#"{"ask":{"collect":{"wait_us":60000}}}"#,
        ),
        (ControlMessage::Ping { number: 3 }, r#"{"ping":{"number":3}}"#),
        (
            ControlMessage::Capture { bytes: Base64Bytes(b"LHD1".to_vec()) },
            r#"{"capture":{"bytes":"TEhEMQ=="}}"#,
        ),
        (ControlMessage::Go, r#""go""#),
        (ControlMessage::Bye(ByeReason::TokenWrong), r#"{"bye":"token_wrong"}"#),
    ] {
        let frame = encode_frame(&message, MAX_FRAME_BYTES).expect("small messages");
        let length = (body.len() as u32).to_be_bytes();
        assert_eq!(frame, [length.as_slice(), body.as_bytes()].concat());
        let document = include_str!("../../../docs/protocol.md");
        assert!(document.contains(body), "docs/protocol.md shows {body}");
    }
}

#[test]
fn the_times_of_the_largest_ask_fit_into_a_frame_whatever_they_are() {
    let steps = vec![Some(i64::MIN); MAX_ASK_PACKETS as usize];
    let train = ReceivedTrain {
        index: u32::MAX,
        times: PacketTimes { first_ns: u64::MAX, steps },
        clock_step_ns: Some(i64::MIN),
        overflowed: false,
    };
    let seen = ReceivedTrains {
        clock: "kernel".to_owned(),
        trains: vec![train],
        overflowed: Some(u64::MAX),
    };
    let message = ControlMessage::Answer(Box::new(SessionReply::Seen(seen)));
    let frame = encode_frame(&message, MAX_RESULT_BYTES).expect("it fits");
    let mut decoder = FrameSplitter::new(MAX_RESULT_BYTES);
    assert_eq!(decoder.next_message(&mut frame.as_slice()), Ok(Some(message)));
}
