//! Arbitrary bytes from a peer: no panic, bounded memory, and every session ends.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_copy::block_header::{BLOCK_HEADER_BYTES, BlockHeader};
use longhaul_model::report::v1::RunParty;
use longhaul_probe::probing::ProbeDatagramHeader;
use longhaul_probe::session::{
    Session, SessionAction, SessionInput, SessionPurpose, SessionSetup, SessionState,
    TransferProgress,
};
use longhaul_probe::wire::{
    AnonymousLimits, ControlMessage, DATA_STREAM, FrameSplitter, MAX_FRAME_BYTES, ProbeBounds,
    SessionNonce, SessionReply, SessionRequest, StreamPreamble, encode_frame,
};
use std::time::Duration;

/// A session with hooks of straw, and its clock.
struct Straw {
    session: Session,
    now: Duration,
}

impl Straw {
    fn new(session: Session) -> Straw {
        let mut straw = Straw { session, now: Duration::ZERO };
        straw.feed(SessionInput::Start);
        straw
    }

    fn feed(&mut self, input: SessionInput) {
        for action in self.session.handle(self.now, input) {
            let answer = match action {
                SessionAction::Admit(_) => SessionInput::Admitted(SessionNonce([0; 16])),
                SessionAction::OpenStreams(_) => SessionInput::StreamsOpen,
                SessionAction::StartEngine(_) => SessionInput::EngineReady,
                SessionAction::Collect => SessionInput::Results(Vec::new()),
                SessionAction::Ask(_) => SessionInput::Answer(Box::new(SessionReply::Armed)),
                SessionAction::Answer(answer) => {
                    read_times(&answer);
                    SessionInput::Ask(Box::new(SessionRequest::Options))
                }
                SessionAction::Send(message) => {
                    encode_frame(&message, MAX_FRAME_BYTES).expect("own messages are small");
                    continue;
                }
                _ => continue,
            };
            self.feed(answer);
        }
    }

    /// Lets time pass as a driver would, without another word from the peer.
    fn outlive(mut self) {
        let progress =
            TransferProgress { sent: true, drained: true, ..TransferProgress::default() };
        self.feed(SessionInput::Progress(progress));
        let mut wakes = 0;
        while let Some(deadline) = self.session.next_deadline() {
            self.now = self.now.max(deadline);
            self.feed(SessionInput::Tick);
            wakes += 1;
            assert!(wakes < 100_000, "a session that never ends");
        }
        assert_eq!(self.session.state(), SessionState::Closed);
    }
}

/// Whatever a far end says of times is read without a panic.
fn read_times(answer: &SessionReply) {
    match answer {
        SessionReply::Seen(seen) => {
            for train in &seen.trains {
                let _ = train.times.decode();
            }
        }
        SessionReply::Sent(sent) => {
            for train in &sent.trains {
                let _ = train.times.decode();
            }
        }
        _ => {}
    }
}

fn setup() -> SessionSetup {
    SessionSetup {
        token: None,
        exporter: [0; 32],
        party: RunParty::default(),
        boot_proof: None,
        same_address: false,
    }
}

/// A client of probes; it asks as soon as it may.
fn prober() -> Session {
    let bounds =
        ProbeBounds { flows: 1, most_bytes: 1_000_000, most_time_us: 10_000_000, dscp: None };
    Session::client(setup(), SessionPurpose::Probe(bounds))
}

fn responder() -> Session {
    Session::server(setup(), Some(AnonymousLimits::default()), 128)
}

fuzz_target!(|bytes: &[u8]| {
    let _ = StreamPreamble::decode(bytes, DATA_STREAM);
    let _ = ProbeDatagramHeader::read(bytes);
    if let Some(front) = bytes.first_chunk::<BLOCK_HEADER_BYTES>()
        && let Some((head, tag)) = BlockHeader::decode(front)
    {
        let again = head.encode(&[0; 32], &[0; 32]);
        assert_eq!(BlockHeader::decode(&again).map(|(head, _)| head), Some(head));
        let _ = head.verify_tag(&[0; 32], &[0; 32], &tag);
    }
    let Some((&cut, frames)) = bytes.split_first() else {
        return;
    };
    let mut decoder = FrameSplitter::new(MAX_FRAME_BYTES);
    let run = SessionPurpose::Run(Box::default());
    let mut sessions = [Session::client(setup(), run), prober(), responder()].map(Straw::new);
    for mut piece in frames.chunks(usize::from(cut).max(1)) {
        while !piece.is_empty() {
            match decoder.next_message(&mut piece) {
                Ok(Some(message)) => hear(&mut sessions, &message),
                Ok(None) => break,
                Err(error) => {
                    for straw in &mut sessions {
                        straw.feed(SessionInput::Garbage(error.to_string()));
                    }
                    return;
                }
            }
        }
        assert!(decoder.held_bytes() <= MAX_FRAME_BYTES + 4);
    }
    sessions.into_iter().for_each(Straw::outlive);
});

fn hear(sessions: &mut [Straw; 3], message: &ControlMessage) {
    for straw in sessions {
        straw.now += Duration::from_millis(3);
        straw.feed(SessionInput::Message(message.clone()));
    }
}
