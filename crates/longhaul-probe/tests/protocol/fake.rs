//! Peers that say what a test wants them to say, and no more.

use longhaul_model::report::v1::RunParty;
use longhaul_model::report::v1::plan::{StopCondition, ThroughputPlan};
use longhaul_probe::secure::{
    AuthToken, ChannelEvent, ControlChannel, TlsHandshake, TlsIdentity, client_config, make_proof,
};
use longhaul_probe::session::SessionRole;
use longhaul_probe::throughput::TargetHost;
use longhaul_probe::wire::{
    ControlMessage, DATA_STREAM, FrameSplitter, HelloMessage, MAX_FRAME_BYTES, PrepareMessage,
    ProtocolVersions, RunProposal, SessionNonce, StreamPreamble, TokenProof, WelcomeMessage,
    encode_frame,
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
    channel: ControlChannel,
    decoder: FrameSplitter,
    heard: VecDeque<ControlMessage>,
    cut: bool,
}

impl FakePeer {
    pub fn connect(address: SocketAddr) -> FakePeer {
        let socket = TcpStream::connect(address).expect("the far end listens");
        let config = client_config(None).expect("TLS can be set up");
        FakePeer::over(socket, TlsHandshake::Client(config))
    }

    pub fn over(socket: TcpStream, handshake: TlsHandshake<'_>) -> FakePeer {
        let deadline = Instant::now() + PATIENCE;
        socket.set_nodelay(true).expect("a connection");
        FakePeer {
            channel: ControlChannel::open(socket, handshake, deadline).expect("a TLS handshake"),
            decoder: FrameSplitter::new(MAX_FRAME_BYTES),
            heard: VecDeque::new(),
            cut: false,
        }
    }

    pub fn say_bytes(&mut self, bytes: &[u8]) {
        self.channel.queue(bytes);
        self.turn(Instant::now());
    }

    pub fn say(&mut self, message: &ControlMessage) {
        let frame = encode_frame(message, MAX_FRAME_BYTES).expect("a small message");
        self.say_bytes(&frame);
    }

    fn turn(&mut self, until: Instant) {
        match self.channel.poll(until) {
            ChannelEvent::Nothing => {}
            ChannelEvent::Cut(_) => self.cut = true,
            ChannelEvent::Bytes(mut bytes) => {
                while let Some(message) = self.decoder.next_message(&mut bytes).expect("frames") {
                    self.heard.push_back(message);
                }
            }
        }
    }

    /// Returns the messages that arrive within this time.
    pub fn hear_for(&mut self, time: Duration) -> Vec<ControlMessage> {
        self.turn(Instant::now() + time);
        self.heard.drain(..).collect()
    }

    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Hears messages until one is wanted, and returns that.
    pub fn hear_until(&mut self, wanted: impl Fn(&ControlMessage) -> bool) -> ControlMessage {
        self.hear_or_end(wanted).expect("cut before the message came")
    }

    /// The same; `None` if the other end hangs up before.
    pub fn hear_or_end(
        &mut self,
        wanted: impl Fn(&ControlMessage) -> bool,
    ) -> Option<ControlMessage> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            while let Some(message) = self.heard.pop_front() {
                if wanted(&message) {
                    return Some(message);
                }
            }
            if self.cut {
                return None;
            }
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
        self.say(&ControlMessage::Hello(HelloMessage {
            versions: ProtocolVersions::OURS,
            longhaul: "fake".to_owned(),
        }));
    }

    pub fn proof(&self, token: &str) -> String {
        let token = AuthToken::new(token).expect("not empty");
        make_proof(&token, SessionRole::Client, self.channel.exporter())
    }

    /// Until the welcome, as a stranger.
    pub fn greet(&mut self) {
        self.hello();
        self.say(&ControlMessage::Proof(TokenProof { token_proof: None }));
        self.hear_until(|message| matches!(message, ControlMessage::Welcome(_)));
    }

    /// Until the welcome, with a token.
    pub fn prove(&mut self, token: &str) {
        self.hello();
        let token_proof = Some(self.proof(token));
        self.say(&ControlMessage::Proof(TokenProof { token_proof }));
        self.hear_until(|message| matches!(message, ControlMessage::Welcome(_)));
    }

    /// As a far end without a token.
    pub fn welcome(&mut self) {
        self.say(&ControlMessage::Welcome(WelcomeMessage {
            token_proof: None,
            party: RunParty::default(),
            boot_proof: None,
            limits: None,
        }));
    }

    /// As a far end, until the initiator may ask.
    pub fn accept_probes(&mut self) {
        self.hello();
        self.welcome();
        self.hear_until(|message| matches!(message, ControlMessage::Probe(_)));
        let nonce = SessionNonce([5; 16]);
        self.say(&ControlMessage::Accept { nonce });
        self.say(&ControlMessage::Opened);
        for number in 0..8 {
            self.hear_until(|message| matches!(message, ControlMessage::Ping { .. }));
            self.say(&ControlMessage::Pong { number, at_us: 0 });
        }
        self.hear_until(|message| matches!(message, ControlMessage::Go));
    }

    /// Until the plan is accepted, as a stranger.
    pub fn negotiate(&mut self, plan: &ThroughputPlan) -> SessionNonce {
        self.greet();
        self.say(&ControlMessage::Propose(Box::new(RunProposal {
            plan: plan.clone(),
            party: RunParty::default(),
            boot_proof: None,
        })));
        let accept = self.hear_until(|message| matches!(message, ControlMessage::Accept { .. }));
        match accept {
            ControlMessage::Accept { nonce } => nonce,
            other => panic!("{other:?} is not what was waited for"),
        }
    }

    /// Until payload flows, on one stream, for a run of `length`.
    pub fn running(address: SocketAddr, length: Duration) -> (FakePeer, TcpStream) {
        let mut peer = FakePeer::connect(address);
        let plan = ThroughputPlan {
            stop: StopCondition::TimeUs(length.as_micros() as u64),
            ..ThroughputPlan::default()
        };
        let nonce = peer.negotiate(&plan);
        let mut stream = TcpStream::connect(address).expect("the far end listens");
        let preamble = StreamPreamble { nonce, index: 0, forward: true };
        stream.write_all(&preamble.encode(DATA_STREAM)).expect("the far end reads");
        peer.hear_until(|message| matches!(message, ControlMessage::Opened));
        peer.say(&ControlMessage::Ping { number: 0 });
        peer.hear_until(|message| matches!(message, ControlMessage::Pong { .. }));
        peer.say(&ControlMessage::Prepare(PrepareMessage {
            origin_us: 0,
            idle_rtt_us: 100,
            same_host: false,
        }));
        peer.hear_until(|message| matches!(message, ControlMessage::Prepared));
        peer.say(&ControlMessage::Go);
        stream.write_all(&vec![0; 1 << 16]).expect("the far end reads");
        peer.hear_until(
            |message| matches!(message, ControlMessage::Interval(i) if i.received_bytes > Some(0)),
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
            let mut peer = FakePeer::over(socket, TlsHandshake::Server(&identity));
            script(&mut peer);
        });
        FakeFarEnd { address, thread: Some(thread) }
    }

    pub fn target(&self) -> TargetHost {
        TargetHost { port: self.address.port(), ..TargetHost::new("127.0.0.1") }
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
