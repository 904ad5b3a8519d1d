//! Arbitrary bytes from a peer: no panic, bounded memory, and every session ends.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_model::report::v1::Party;
use longhaul_model::report::v1::plan::Plan;
use longhaul_probe::probing::Header;
use longhaul_probe::session::{
    Action, Admission, Initiative, Input, Part, Progress, Session, Setup, State,
};
use longhaul_probe::wire::{
    Accept, AnonymousLimits, Answer, Ask, BLOCK_HEAD_BYTES, BlockHead, Bounds, DATA_STREAM,
    Decoder, MOST_FRAME_BYTES, Message, Nonce, Preamble, encode,
};
use std::time::Duration;

/// A session with hooks of straw, and its clock.
struct Straw {
    session: Session,
    now: Duration,
}

impl Straw {
    fn new(part: Part) -> Straw {
        let setup = Setup {
            token: None,
            exporter: [0; 32],
            party: Party::default(),
            boot_proof: None,
            one_address: false,
        };
        let mut straw = Straw {
            session: Session::new(setup, part),
            now: Duration::ZERO,
        };
        straw.feed(Input::Start);
        straw
    }

    fn feed(&mut self, input: Input) {
        for action in self.session.handle(self.now, input) {
            let answer = match action {
                Action::Admit(_) => Input::Admitted(Accept {
                    nonce: Nonce([0; 16]),
                }),
                Action::OpenStreams(_) => Input::StreamsOpen,
                Action::StartEngine(_) => Input::EngineReady,
                Action::Collect => Input::Results(Vec::new()),
                Action::Ask(_) => Input::Answer(Box::new(Answer::Armed)),
                Action::Answer(answer) => {
                    read_times(&answer);
                    Input::Ask(Box::new(Ask::Options))
                }
                Action::Send(message) => {
                    encode(&message, MOST_FRAME_BYTES).expect("own messages are small");
                    continue;
                }
                _ => continue,
            };
            self.feed(answer);
        }
    }

    /// Lets time pass as a driver would, without another word from the peer.
    fn outlive(mut self) {
        let progress = Progress {
            sent: true,
            drained: true,
            ..Progress::default()
        };
        self.feed(Input::Progress(progress));
        let mut wakes = 0;
        while let Some(deadline) = self.session.next_deadline() {
            self.now = self.now.max(deadline);
            self.feed(Input::Tick);
            wakes += 1;
            assert!(wakes < 100_000, "a session that never ends");
        }
        assert_eq!(self.session.state(), State::Closed);
    }
}

/// Whatever a far end says of times is read without a panic.
fn read_times(answer: &Answer) {
    match answer {
        Answer::Seen(seen) => {
            for train in &seen.trains {
                let _ = train.times.absolute();
            }
        }
        Answer::Sent(sent) => {
            for train in &sent.trains {
                let _ = train.times.absolute();
            }
        }
        _ => {}
    }
}

/// An initiator of probes; it asks as soon as it may.
fn prober() -> Part {
    let bounds = Bounds {
        flows: 1,
        most_bytes: 1_000_000,
        most_time_us: 10_000_000,
        dscp: None,
    };
    Part::Initiator(Box::new(Initiative::probing(bounds)))
}

fn responder() -> Part {
    let strangers = Some(AnonymousLimits::default());
    Part::Responder(Box::new(Admission::new(strangers, 128)))
}

fuzz_target!(|bytes: &[u8]| {
    let _ = Preamble::decode(bytes, DATA_STREAM);
    let _ = Header::read(bytes);
    if let Some(front) = bytes.first_chunk::<BLOCK_HEAD_BYTES>()
        && let Some((head, tag)) = BlockHead::decode(front)
    {
        let again = head.encode(&[0; 32], &[0; 32]);
        assert_eq!(BlockHead::decode(&again).map(|(head, _)| head), Some(head));
        let _ = head.holds(&[0; 32], &[0; 32], &tag);
    }
    let Some((&cut, frames)) = bytes.split_first() else {
        return;
    };
    let mut decoder = Decoder::new(MOST_FRAME_BYTES);
    let initiative = Initiative::new(Plan::default(), None);
    let parts = [Part::Initiator(Box::new(initiative)), prober(), responder()];
    let mut sessions = parts.map(Straw::new);
    for mut piece in frames.chunks(usize::from(cut).max(1)) {
        while !piece.is_empty() {
            match decoder.next(&mut piece) {
                Ok(Some(message)) => hear(&mut sessions, &message),
                Ok(None) => break,
                Err(error) => {
                    for straw in &mut sessions {
                        straw.feed(Input::Garbage(error.to_string()));
                    }
                    return;
                }
            }
        }
        assert!(decoder.held_bytes() <= MOST_FRAME_BYTES + 4);
    }
    sessions.into_iter().for_each(Straw::outlive);
});

fn hear(sessions: &mut [Straw; 3], message: &Message) {
    for straw in sessions {
        straw.now += Duration::from_millis(3);
        straw.feed(Input::Message(message.clone()));
    }
}
