//! Peers that say what a test wants them to say, and no more.

use longhaul_model::report::v1::Party;
use longhaul_model::report::v1::plan::{Plan, Stop};
use longhaul_probe::secure::{
    Channel, Handshake, Heard, TlsIdentity, Token, initiator_config, prove,
};
use longhaul_probe::session::Role;
use longhaul_probe::throughput::Target;
use longhaul_probe::wire::{
    Accept, DATA_STREAM, Decoder, Hello, MOST_FRAME_BYTES, Message, Nonce, Ping, Pong, Preamble,
    Prepare, Proof, Propose, Versions, Welcome, encode,
};
use std::collections::VecDeque;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// No test waits longer for one message.
const PATIENCE: Duration = Duration::from_secs(120);

/// One end of a control connection, with TLS but without a session.
pub struct FakePeer {
    channel: Channel,
    decoder: Decoder,
    heard: VecDeque<Message>,
    cut: bool,
}

impl FakePeer {
    pub fn connect(address: SocketAddr) -> FakePeer {
        let socket = TcpStream::connect(address).expect("the far end listens");
        let config = initiator_config().expect("TLS can be set up");
        FakePeer::over(socket, Handshake::Initiator(config))
    }

    fn over(socket: TcpStream, handshake: Handshake<'_>) -> FakePeer {
        let deadline = Instant::now() + PATIENCE;
        FakePeer {
            channel: Channel::open(socket, handshake, deadline).expect("a TLS handshake"),
            decoder: Decoder::new(MOST_FRAME_BYTES),
            heard: VecDeque::new(),
            cut: false,
        }
    }

    pub fn say_bytes(&mut self, bytes: &[u8]) {
        self.channel.queue(bytes);
        self.turn(Instant::now());
    }

    pub fn say(&mut self, message: &Message) {
        let frame = encode(message, MOST_FRAME_BYTES).expect("a small message");
        self.say_bytes(&frame);
    }

    fn turn(&mut self, until: Instant) {
        match self.channel.turn(until) {
            Heard::Nothing => {}
            Heard::Cut(_) => self.cut = true,
            Heard::Bytes(mut bytes) => {
                while let Some(message) = self.decoder.next(&mut bytes).expect("frames") {
                    self.heard.push_back(message);
                }
            }
        }
    }

    /// Hears messages until one is wanted, and returns that.
    pub fn hear_until(&mut self, wanted: impl Fn(&Message) -> bool) -> Message {
        let deadline = Instant::now() + PATIENCE;
        loop {
            while let Some(message) = self.heard.pop_front() {
                if wanted(&message) {
                    return message;
                }
            }
            assert!(!self.cut, "cut before the message came");
            assert!(Instant::now() < deadline, "the message did not come");
            self.turn(deadline);
        }
    }

    /// Says nothing until the other end hangs up.
    pub fn wait_for_the_end(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.cut && Instant::now() < deadline {
            self.turn(deadline);
        }
    }

    pub fn hello(&mut self) {
        self.say(&Message::Hello(Hello {
            versions: Versions::OURS,
            longhaul: "fake".to_owned(),
        }));
    }

    pub fn proof(&self, token: &str) -> String {
        let token = Token::new(token).expect("not empty");
        prove(&token, Role::Initiator, self.channel.exporter())
    }

    /// Until the welcome, as a stranger.
    pub fn greet(&mut self) {
        self.hello();
        self.say(&Message::Proof(Proof { token_proof: None }));
        self.hear_until(|message| matches!(message, Message::Welcome(_)));
    }

    /// Until the welcome, with a token.
    pub fn prove(&mut self, token: &str) {
        self.hello();
        let token_proof = Some(self.proof(token));
        self.say(&Message::Proof(Proof { token_proof }));
        self.hear_until(|message| matches!(message, Message::Welcome(_)));
    }

    /// As a far end without a token.
    pub fn welcome(&mut self) {
        self.say(&Message::Welcome(Welcome {
            token_proof: None,
            party: Party::default(),
            boot_proof: None,
            limits: None,
        }));
    }

    /// As a far end, until the initiator may ask.
    pub fn accept_probes(&mut self) {
        self.hello();
        self.welcome();
        self.hear_until(|message| matches!(message, Message::Probe(_)));
        let nonce = Nonce([5; 16]);
        self.say(&Message::Accept(Accept { nonce }));
        self.say(&Message::Opened);
        for number in 0..8 {
            self.hear_until(|message| matches!(message, Message::Ping(_)));
            self.say(&Message::Pong(Pong { number, at_us: 0 }));
        }
        self.hear_until(|message| matches!(message, Message::Go));
    }

    /// Until the plan is accepted, as a stranger.
    pub fn negotiate(&mut self, plan: &Plan) -> Nonce {
        self.greet();
        self.say(&Message::Propose(Box::new(Propose {
            plan: plan.clone(),
            party: Party::default(),
            boot_proof: None,
        })));
        let accept = self.hear_until(|message| matches!(message, Message::Accept(_)));
        match accept {
            Message::Accept(accept) => accept.nonce,
            other => panic!("{other:?} is not what was waited for"),
        }
    }

    /// Until payload flows, on one stream, for a run of `length`.
    pub fn running(address: SocketAddr, length: Duration) -> (FakePeer, TcpStream) {
        let mut peer = FakePeer::connect(address);
        let plan = Plan {
            stop: Stop::TimeUs(length.as_micros() as u64),
            ..Plan::default()
        };
        let nonce = peer.negotiate(&plan);
        let mut stream = TcpStream::connect(address).expect("the far end listens");
        let preamble = Preamble {
            nonce,
            index: 0,
            forward: true,
        };
        stream
            .write_all(&preamble.encode(DATA_STREAM))
            .expect("the far end reads");
        peer.hear_until(|message| matches!(message, Message::Opened));
        peer.say(&Message::Ping(Ping { number: 0 }));
        peer.hear_until(|message| matches!(message, Message::Pong(_)));
        peer.say(&Message::Prepare(Prepare {
            origin_us: 0,
            idle_rtt_us: 100,
            same_host: false,
            wait_us: None,
        }));
        peer.hear_until(|message| matches!(message, Message::Prepared));
        peer.say(&Message::Go);
        stream
            .write_all(&vec![0; 1 << 16])
            .expect("the far end reads");
        peer.hear_until(
            |message| matches!(message, Message::Interval(i) if i.received_bytes > Some(0)),
        );
        (peer, stream)
    }
}

/// A far end for one connection that follows a script.
pub struct FakeFarEnd {
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl FakeFarEnd {
    pub fn start(script: impl FnOnce(&mut FakePeer) + Send + 'static) -> FakeFarEnd {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let thread = std::thread::spawn(move || {
            let (socket, _) = listener.accept().expect("the initiator connects");
            let identity = TlsIdentity::generate().expect("a certificate can be made");
            let mut peer = FakePeer::over(socket, Handshake::Responder(&identity));
            script(&mut peer);
        });
        FakeFarEnd {
            address,
            thread: Some(thread),
        }
    }

    pub fn target(&self) -> Target {
        Target {
            port: self.address.port(),
            ..Target::new("127.0.0.1")
        }
    }
}

impl Drop for FakeFarEnd {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the script of the fake far end failed");
        }
    }
}
