//! Properties of the wire: what was framed comes out again however it is cut, and what is no
//! frame neither panics nor takes memory beyond the limit.

use longhaul_model::report::v1::available::{Purpose, Schedule, TrainPlan};
use longhaul_model::report::v1::observation::{End, Sample, StreamEnd};
use longhaul_model::report::v1::plan::{Direction, Plan, Stop};
use longhaul_model::report::v1::{Caveat, Party};
use longhaul_probe::limits::MOST_ASK_PACKETS;
use longhaul_probe::probing::Header;
use longhaul_probe::session::{Event, State};
use longhaul_probe::wire::{
    Accept, AnonymousLimits, Answer, Ask, Bounds, Bye, CapturePart, Collect, DATA_STREAM, Decoder,
    EndResult, Hello, Interval, MOST_FRAME_BYTES, MOST_RESULT_BYTES, Message, Nonce, Packed, Ping,
    Pong, Preamble, Prepare, Probe, Proof, Propose, Seen, StreamResult, Times, TrainSeen, Versions,
    Welcome, WireError, encode,
};
use proptest::prelude::*;

fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec(any::<char>(), 0..40).prop_map(|chars| chars.into_iter().collect())
}

fn maybe<T: std::fmt::Debug + Clone>(
    some: impl Strategy<Value = T>,
) -> impl Strategy<Value = Option<T>> {
    proptest::option::of(some)
}

fn plan() -> impl Strategy<Value = Plan> {
    let stop = prop_oneof![
        any::<u64>().prop_map(Stop::TimeUs),
        any::<u64>().prop_map(Stop::Bytes),
        any::<u64>().prop_map(Stop::Blocks),
    ];
    (any::<u32>(), stop, maybe(text()), maybe(any::<u64>())).prop_map(
        |(streams, stop, congestion_control, send_buffer_bytes)| Plan {
            direction: Direction::Both,
            streams,
            stop,
            congestion_control,
            send_buffer_bytes,
            ..Plan::default()
        },
    )
}

fn small() -> impl Strategy<Value = Message> {
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
            let versions = Versions { least, most };
            Message::Hello(Hello { versions, longhaul })
        }),
        maybe(text()).prop_map(|token_proof| Message::Proof(Proof { token_proof })),
        (maybe(text()), text(), maybe(limits)).prop_map(|(token_proof, host, limits)| {
            let party = Party {
                host,
                ..Party::default()
            };
            let boot_proof = None;
            Message::Welcome(Welcome {
                token_proof,
                party,
                boot_proof,
                limits,
            })
        }),
        any::<[u8; 16]>().prop_map(|nonce| Message::Accept(Accept {
            nonce: Nonce(nonce)
        })),
        (any::<u32>(), any::<u64>())
            .prop_map(|(number, at_us)| Message::Pong(Pong { number, at_us })),
        any::<u32>().prop_map(|number| Message::Ping(Ping { number })),
        (
            any::<u64>(),
            any::<u64>(),
            any::<bool>(),
            maybe(any::<u64>())
        )
            .prop_map(|(origin_us, idle_rtt_us, same_host, wait_us)| {
                Message::Prepare(Prepare {
                    origin_us,
                    idle_rtt_us,
                    same_host,
                    wait_us,
                })
            }),
        (any::<u64>(), maybe(any::<u64>()), maybe(any::<u64>())).prop_map(
            |(elapsed_us, sent_bytes, received_bytes)| {
                Message::Interval(Interval {
                    elapsed_us,
                    sent_bytes,
                    received_bytes,
                })
            }
        ),
        text().prop_map(|what| Message::Bye(Bye::Refused(what))),
        proptest::sample::select(vec![
            Message::Opened,
            Message::Prepared,
            Message::Go,
            Message::Sent,
            Message::Drained,
            Message::Bye(Bye::Finished),
        ]),
    ]
}

fn large() -> impl Strategy<Value = Message> {
    let samples = proptest::collection::vec(any::<(u64, u64)>(), 0..20);
    prop_oneof![
        plan().prop_map(|plan| {
            let (party, boot_proof) = (Party::default(), None);
            Message::Propose(Box::new(Propose {
                plan,
                party,
                boot_proof,
            }))
        }),
        (any::<bool>(), any::<u32>(), samples).prop_map(|(forward, index, samples)| {
            let sample = |(at_us, bytes)| Sample {
                at_us,
                bytes,
                ..Sample::default()
            };
            let samples = samples.into_iter().map(sample).collect();
            let end = StreamEnd {
                samples,
                ..StreamEnd::default()
            };
            Message::Stream(Box::new(StreamResult {
                forward,
                index,
                end,
            }))
        }),
        (any::<bool>(), text()).prop_map(|(forward, told)| {
            let caveats = vec![Caveat::new("told", told)];
            let end = End::default();
            Message::End(Box::new(EndResult {
                forward,
                end,
                caveats,
            }))
        }),
    ]
}

fn probing() -> impl Strategy<Value = Message> {
    let bounds = (any::<u32>(), any::<u64>(), maybe(any::<u8>()));
    let times = proptest::collection::vec(maybe(any::<i64>()), 0..20);
    prop_oneof![
        bounds.prop_map(|(flows, most_bytes, dscp)| {
            let bounds = Bounds {
                flows,
                most_bytes,
                most_time_us: most_bytes / 3,
                dscp,
            };
            Message::Probe(Box::new(Probe {
                bounds,
                party: Party::default(),
                boot_proof: None,
            }))
        }),
        (any::<u32>(), any::<u32>(), any::<u64>()).prop_map(|(index, packets, seed)| {
            let train = TrainPlan {
                index,
                purpose: Purpose::Idle,
                packets,
                packet_bytes: 100,
                schedule: Schedule::Poisson {
                    mean_gap_ns: seed / 2,
                    seed,
                },
                pause_us: 0,
            };
            Message::Ask(Ask::Send(vec![train]))
        }),
        any::<u64>().prop_map(|wait_us| Message::Ask(Ask::Collect(Collect { wait_us }))),
        (any::<u64>(), times, maybe(any::<i64>())).prop_map(|(first_ns, steps, clock_step_ns)| {
            let train = TrainSeen {
                index: 0,
                times: Times { first_ns, steps },
                clock_step_ns,
                overflowed: false,
            };
            Message::Answer(Box::new(Answer::Seen(Seen {
                clock: "kernel".to_owned(),
                trains: vec![train],
                overflowed: None,
            })))
        }),
        text().prop_map(|why| Message::Answer(Box::new(Answer::Failed(why)))),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![small(), large(), probing()]
}

/// Decodes `bytes` in pieces of the lengths given, over and over.
fn decode(bytes: &[u8], pieces: &[usize]) -> Result<Vec<Message>, WireError> {
    let mut decoder = Decoder::new(MOST_FRAME_BYTES);
    let mut messages = Vec::new();
    let mut rest = bytes;
    let mut lengths = pieces.iter().cycle();
    while !rest.is_empty() {
        let length = lengths
            .next()
            .map_or(rest.len(), |length| (*length).min(rest.len()));
        let (mut piece, after) = rest.split_at(length);
        while !piece.is_empty() {
            match decoder.next(&mut piece)? {
                Some(message) => messages.push(message),
                None => assert!(piece.is_empty(), "bytes left and no message"),
            }
        }
        assert!(decoder.held_bytes() <= MOST_FRAME_BYTES + 4);
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
        let frames = messages.iter().map(|message| encode(message, MOST_FRAME_BYTES));
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
        let _ = Header::read(&bytes);
        let _ = Preamble::decode(&bytes, DATA_STREAM);
    }

    #[test]
    fn one_changed_byte_is_a_message_or_an_error(
        message in message(),
        place in any::<proptest::sample::Index>(),
        value in any::<u8>(),
    ) {
        let mut bytes = encode(&message, MOST_FRAME_BYTES).expect("small messages");
        let place = place.index(bytes.len());
        bytes[place] = value;
        let _ = decode(&bytes, &[7]);
    }

    #[test]
    fn preambles_read_back(nonce in any::<[u8; 16]>(), index in any::<u16>(), forward in any::<bool>()) {
        let preamble = Preamble { nonce: Nonce(nonce), index, forward };
        prop_assert_eq!(Preamble::decode(&preamble.encode(DATA_STREAM), DATA_STREAM), Some(preamble));
    }
}

#[test]
fn lengths_over_the_limit_are_refused_at_once() {
    for length in [MOST_FRAME_BYTES as u32 + 1, u32::MAX] {
        let mut decoder = Decoder::new(MOST_FRAME_BYTES);
        let error = decoder
            .next(&mut length.to_be_bytes().as_slice())
            .expect_err("too long");
        assert!(matches!(error, WireError::TooLong { .. }));
        assert!(decoder.held_bytes() < 1024);
    }
}

#[test]
fn deep_nesting_is_an_error_and_not_a_full_stack() {
    let body = vec![b'['; 60_000];
    let mut frame = (body.len() as u32).to_be_bytes().to_vec();
    frame.extend(body);
    let error = Decoder::new(MOST_FRAME_BYTES).next(&mut frame.as_slice());
    assert!(
        matches!(error, Err(WireError::Malformed { .. })),
        "{error:?}"
    );
}

#[test]
fn the_golden_frames_of_the_document_are_what_is_sent() {
    for (message, body) in [
        (
            Message::Hello(Hello {
                versions: Versions::OURS,
                longhaul: "0.2.0".into(),
            }),
            r#"{"hello":{"versions":{"least":1,"most":4},"longhaul":"0.2.0"}}"#,
        ),
        (
            Message::Ask(Ask::Collect(Collect { wait_us: 60_000 })),
            r#"{"ask":{"collect":{"wait_us":60000}}}"#,
        ),
        (
            Message::Ping(Ping { number: 3 }),
            r#"{"ping":{"number":3}}"#,
        ),
        (
            Message::Capture(CapturePart {
                bytes: Packed(b"LHD1".to_vec()),
            }),
            r#"{"capture":{"bytes":"TEhEMQ=="}}"#,
        ),
        (Message::Go, r#""go""#),
        (Message::Bye(Bye::TokenWrong), r#"{"bye":"token_wrong"}"#),
    ] {
        let frame = encode(&message, MOST_FRAME_BYTES).expect("small messages");
        let length = (body.len() as u32).to_be_bytes();
        assert_eq!(frame, [length.as_slice(), body.as_bytes()].concat());
        let document = include_str!("../../../docs/protocol.md");
        assert!(document.contains(body), "docs/protocol.md shows {body}");
    }
}

#[test]
fn the_document_lists_every_message_and_every_state() {
    let document = include_str!("../../../docs/protocol.md");
    for event in Event::ALL.map(|event| format!("{event:?}").to_lowercase()) {
        let local = [
            "admitted",
            "streamsopen",
            "timed",
            "timedtoask",
            "asked",
            "done",
            "engineready",
            "starttime",
            "allsent",
            "alldrained",
            "ending",
        ];
        let listed = document.contains(&format!("| `{event}` |"));
        assert!(listed || local.contains(&event.as_str()), "message {event}");
    }
    for state in State::ALL {
        assert!(
            document.contains(&format!("| `{state:?}` |")),
            "state {state:?}"
        );
    }
    for (name, value) in [("64 KiB", MOST_FRAME_BYTES), ("4 MiB", MOST_RESULT_BYTES)] {
        assert!(
            document.contains(&format!("{name} ({value} bytes)")),
            "{name}"
        );
    }
}

#[test]
fn the_times_of_the_largest_ask_fit_into_a_frame_whatever_they_are() {
    let steps = vec![Some(i64::MIN); MOST_ASK_PACKETS as usize];
    let train = TrainSeen {
        index: u32::MAX,
        times: Times {
            first_ns: u64::MAX,
            steps,
        },
        clock_step_ns: Some(i64::MIN),
        overflowed: false,
    };
    let seen = Seen {
        clock: "kernel".to_owned(),
        trains: vec![train],
        overflowed: Some(u64::MAX),
    };
    let message = Message::Answer(Box::new(Answer::Seen(seen)));
    let frame = encode(&message, MOST_RESULT_BYTES).expect("it fits");
    let mut decoder = Decoder::new(MOST_RESULT_BYTES);
    assert_eq!(decoder.next(&mut frame.as_slice()), Ok(Some(message)));
}
