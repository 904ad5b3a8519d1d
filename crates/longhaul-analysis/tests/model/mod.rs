//! A transfer in round trips: enough of TCP and of a path to make observations with known causes.
//!
//! Each round sends what the least window allows, loses what queue, policer or chance take, and lets
//! the receiver read. Counters are those of Linux, figures those of our experiments: a send buffer
//! that limits shows 1 % in the kernel's own counter, a slow reader the same window limit as a small
//! buffer. Wrong when: sub-round timing matters.

use longhaul_model::report::v1::observation::{
    BothEnds, EndObservation, HostFacts, ObservedStream, SocketBuffer, StreamEnd, StreamSample,
    TcpReading, ThroughputObservation,
};

pub const MSS: f64 = 1448.0;
/// CUBIC: C and β.
const CUBIC_C: f64 = 0.4;
const CUBIC_BETA: f64 = 0.7;

/// One narrow link, two hosts, one stream; the fault is whatever differs from `Default`.
#[derive(Debug, Clone)]
pub struct Setting {
    pub rtt_ms: f64,
    pub seconds: f64,
    pub link_bps: f64,
    pub queue_bytes: f64,
    pub loss: f64,
    /// Rate and burst.
    pub policer: Option<(f64, f64)>,
    /// Sustained rate and burst; the peak is the link's rate.
    pub shaper: Option<(f64, f64)>,
    pub window_most: f64,
    pub receive_asked: Option<u64>,
    pub send_most: f64,
    pub send_asked: Option<u64>,
    pub write_bps: f64,
    pub read_bps: f64,
    /// The thread gets a core only for this share of what it wants, and then this rate.
    pub starved_sender_bps: Option<f64>,
    pub starved_receiver_bps: Option<f64>,
    /// Stop after so many bytes.
    pub total_bytes: f64,
    /// Fields that an old kernel lacks stay empty.
    pub old_kernel: bool,
    pub seed: u64,
}

impl Default for Setting {
    fn default() -> Setting {
        Setting {
            rtt_ms: 40.0,
            seconds: 8.0,
            link_bps: 96e6,
            queue_bytes: 500e3,
            loss: 0.0,
            policer: None,
            shaper: None,
            window_most: 3.1e6,
            receive_asked: None,
            send_most: 4e6,
            send_asked: None,
            write_bps: f64::INFINITY,
            read_bps: f64::INFINITY,
            starved_sender_bps: None,
            starved_receiver_bps: None,
            total_bytes: f64::INFINITY,
            old_kernel: false,
            seed: 1,
        }
    }
}

#[derive(Debug, Default)]
struct Run {
    now_s: f64,
    cwnd: f64,
    ssthresh: f64,
    before_loss: f64,
    since_loss_s: f64,
    window: f64,
    written: f64,
    delivered: f64,
    read: f64,
    unread: f64,
    in_flight: f64,
    rtt_s: f64,
    tokens: f64,
    lost: f64,
    segments: f64,
    window_limited_s: f64,
    sender: Clock,
    receiver: Clock,
    recovering: bool,
    random: u64,
}

#[derive(Debug, Default)]
#[expect(clippy::struct_field_names, reason = "the unit is last in the name")]
struct Clock {
    blocked_s: f64,
    cpu_s: f64,
    wait_s: f64,
}

/// What held a round.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Held {
    Congestion,
    Window,
    Buffer,
    Writer,
    SenderCpu,
}

pub fn observe(setting: &Setting) -> ThroughputObservation {
    let mut run = Run {
        cwnd: 10.0 * MSS,
        ssthresh: f64::INFINITY,
        window: 65_536.0_f64.min(setting.window_most),
        rtt_s: setting.rtt_ms / 1e3,
        random: setting.seed,
        tokens: setting.shaper.or(setting.policer).map_or(0.0, |b| b.1),
        ..Run::default()
    };
    let spacing_s = 0.1_f64.max(run.rtt_s);
    let mut due_s = 0.0;
    let (mut near, mut far) = (Vec::new(), Vec::new());
    while run.now_s < setting.seconds && run.read < setting.total_bytes {
        if run.now_s >= due_s {
            near.push(run.near(setting));
            far.push(run.far(setting));
            due_s += spacing_s;
        }
        run.round(setting);
    }
    near.push(run.near(setting));
    far.push(run.far(setting));
    run.publish(setting, near, far)
}

impl Run {
    fn chance(&mut self) -> f64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }

    fn round(&mut self, setting: &Setting) {
        let base_s = setting.rtt_ms / 1e3;
        let (sent, held) = self.sends(setting);
        let shaped_bps = match setting.shaper {
            Some((sustained, _)) if self.tokens <= 0.0 => sustained,
            _ => setting.link_bps,
        };
        let pipe = shaped_bps / 8.0 * base_s;
        let overflow = (sent - pipe - setting.queue_bytes).max(0.0);
        let queue = (sent - pipe).clamp(0.0, setting.queue_bytes);
        // Jitter of a busy machine: up to 4 % of a round and 0.2 ms.
        let jitter_s = self.chance() * (0.02 * base_s).min(2e-4);
        self.rtt_s = base_s + queue * 8.0 / shaped_bps + jitter_s;
        let dropped =
            overflow + self.policed(setting, sent - overflow) + self.unlucky(setting, sent);
        let passed = (sent - dropped).max(0.0);
        if let Some((sustained, burst)) = setting.shaper {
            self.tokens = (self.tokens + sustained / 8.0 * self.rtt_s - passed).min(burst);
        }
        self.segments += sent / MSS;
        self.lost += (dropped / MSS).ceil();
        self.reads(setting, passed);
        self.reacts(dropped > 0.0, held);
        self.spends(setting, held);
        self.in_flight = sent;
        self.now_s += self.rtt_s;
    }

    fn sends(&self, setting: &Setting) -> (f64, Held) {
        let free = (self.window - self.unread).max(0.0);
        let written = setting.write_bps / 8.0 * self.rtt_s;
        let core = setting.starved_sender_bps.unwrap_or(f64::INFINITY) / 8.0 * self.rtt_s;
        let left = setting.total_bytes - self.delivered;
        let limits = [
            (self.cwnd, Held::Congestion),
            (free, Held::Window),
            (setting.send_most, Held::Buffer),
            (written.min(left), Held::Writer),
            (core, Held::SenderCpu),
        ];
        limits.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap()
    }

    fn policed(&mut self, setting: &Setting, sent: f64) -> f64 {
        let Some((rate, burst)) = setting.policer else {
            return 0.0;
        };
        self.tokens =
            (self.tokens + rate / 8.0 * self.rtt_s).min(burst.max(rate / 8.0 * self.rtt_s));
        let passed = sent.min(self.tokens);
        self.tokens -= passed;
        sent - passed
    }

    fn unlucky(&mut self, setting: &Setting, sent: f64) -> f64 {
        if setting.loss == 0.0 {
            return 0.0;
        }
        let segments = (sent / MSS).ceil() as u64;
        (0..segments).filter(|_| self.chance() < setting.loss).count() as f64 * MSS
    }

    fn reads(&mut self, setting: &Setting, passed: f64) {
        self.delivered += passed;
        self.unread += passed;
        let able = setting.read_bps.min(setting.starved_receiver_bps.unwrap_or(f64::INFINITY));
        let read = self.unread.min(able / 8.0 * self.rtt_s);
        self.unread -= read;
        self.read += read;
        if self.unread < self.window / 2.0 {
            self.window = (self.window * 2.0).min(setting.window_most);
        }
    }

    fn reacts(&mut self, lost: bool, held: Held) {
        self.since_loss_s += self.rtt_s;
        if lost && !self.recovering {
            self.before_loss = self.cwnd;
            self.cwnd = (self.cwnd * CUBIC_BETA).max(2.0 * MSS);
            self.ssthresh = self.cwnd;
            self.since_loss_s = 0.0;
        } else if !lost && held == Held::Congestion {
            self.grow();
        }
        // Losses of the round after a cut belong to the same recovery; later ones cut again.
        self.recovering = lost && !self.recovering;
    }

    fn grow(&mut self) {
        if self.cwnd < self.ssthresh {
            self.cwnd = (self.cwnd * 2.0).min(self.ssthresh);
            return;
        }
        let top = self.before_loss / MSS;
        let k = (top * (1.0 - CUBIC_BETA) / CUBIC_C).cbrt();
        let cubic = CUBIC_C * (self.since_loss_s - k).powi(3) + top;
        let reno = self.cwnd / MSS + 0.53;
        self.cwnd = self.cwnd.max(cubic.max(reno).min(self.cwnd * 1.5 / MSS) * MSS);
    }

    fn spends(&mut self, setting: &Setting, held: Held) {
        let round = self.rtt_s;
        if held == Held::Window {
            self.window_limited_s += round;
        }
        self.sender.spend(round, held == Held::Writer, setting.starved_sender_bps.is_some());
        let paced = setting.read_bps.is_finite() && self.unread > 0.0;
        let starved = setting.starved_receiver_bps.is_some() && self.unread > 0.0;
        self.receiver.spend(round, paced, starved);
        self.written = self.delivered + self.in_flight;
    }

    /// Unsent bytes: none where the sender's own side limits.
    fn unsent(&self, setting: &Setting) -> f64 {
        match self.sends(setting).1 {
            Held::Congestion | Held::Window => 1.5 * self.in_flight,
            Held::Buffer | Held::Writer | Held::SenderCpu => 0.0,
        }
    }

    fn near(&self, setting: &Setting) -> StreamSample {
        let us = |s: f64| (s * 1e6) as u64;
        let new = |value: u64| (!setting.old_kernel).then_some(value);
        let tcp = TcpReading {
            rtt_us: us(self.rtt_s),
            mss_bytes: MSS as u64,
            cwnd_bytes: self.cwnd as u64,
            ssthresh_bytes: self.ssthresh.is_finite().then_some(self.ssthresh as u64),
            unacked_bytes: self.in_flight as u64,
            retransmitted_segments: self.lost as u64,
            ca_state: if self.recovering { 3 } else { 0 },
            rtt_min_us: new(us(setting.rtt_ms / 1e3)),
            bytes_acked: new(self.delivered as u64),
            data_segments_out: new(self.segments as u64),
            unsent_bytes: new(self.unsent(setting) as u64),
            busy_us: new(us(self.now_s)),
            receive_window_limited_us: new(us(self.window_limited_s)),
            send_buffer_limited_us: new(us(self.now_s * 0.01)),
            peer_window_bytes: new((self.window - self.unread).max(0.0) as u64),
            ..TcpReading::default()
        };
        StreamSample { tcp: Some(tcp), ..self.sender.sample(self.now_s, self.written) }
    }

    fn far(&self, setting: &Setting) -> StreamSample {
        let tcp = TcpReading {
            mss_bytes: MSS as u64,
            own_window_bytes: (!setting.old_kernel)
                .then_some((self.window - self.unread).max(0.0) as u64),
            ..TcpReading::default()
        };
        StreamSample {
            tcp: Some(tcp),
            queue_bytes: Some(self.unread as u64),
            ..self.receiver.sample(self.now_s, self.read)
        }
    }

    fn publish(
        self,
        setting: &Setting,
        near: Vec<StreamSample>,
        far: Vec<StreamSample>,
    ) -> ThroughputObservation {
        let elapsed_us = (self.now_s * 1e6) as u64;
        let buffer = |asked: Option<u64>, held: f64| {
            let granted_bytes = asked.map_or(held as u64, |a| a.min(held as u64));
            Some(SocketBuffer {
                asked_bytes: asked,
                granted_bytes,
                stored_bytes: 2 * granted_bytes,
            })
        };
        let end = |samples: Vec<StreamSample>, bytes: f64| StreamEnd {
            bytes: bytes as u64,
            duration_us: elapsed_us,
            calls: Some(1000),
            blocked_us: Some(samples.last().map_or(0, |s| s.blocked_us)),
            cpu_us: samples.last().and_then(|s| s.cpu_us),
            samples,
            ..StreamEnd::default()
        };
        let sender = StreamEnd {
            send_buffer: buffer(setting.send_asked, setting.send_most),
            ..end(near, self.written)
        };
        let receiver = StreamEnd {
            receive_buffer: buffer(setting.receive_asked, setting.window_most),
            ..end(far, self.read)
        };
        let host = |name: &str| HostFacts {
            name: name.to_owned(),
            kernel: String::from("6.18"),
            tcp_rmem_bytes: Some([4096, 131_072, 6_291_456]),
            tcp_wmem_bytes: Some([4096, 16_384, 4_194_304]),
            ..HostFacts::default()
        };
        ThroughputObservation {
            forward: true,
            elapsed_us,
            idle_rtt_us: Some((setting.rtt_ms * 1e3) as u64),
            clock_error_us: Some(100),
            same_host: false,
            same_boot: None,
            streams: vec![ObservedStream { index: 0, sender, receiver }],
            ends: BothEnds {
                sender: EndObservation { host: host("near"), ..EndObservation::default() },
                receiver: EndObservation { host: host("far"), ..EndObservation::default() },
            },
            reverse: None,
        }
    }
}

impl Clock {
    fn spend(&mut self, seconds: f64, elsewhere: bool, starved: bool) {
        let (blocked, cpu, wait) = match (elsewhere, starved) {
            (_, true) => (1.0, 0.05, 0.93),
            (true, false) => (0.03, 0.02, 0.0),
            (false, false) => (0.98, 0.1, 0.01),
        };
        self.blocked_s += blocked * seconds;
        self.cpu_s += cpu * seconds;
        self.wait_s += wait * seconds;
    }

    fn sample(&self, now_s: f64, bytes: f64) -> StreamSample {
        let us = |s: f64| (s * 1e6) as u64;
        StreamSample {
            at_us: us(now_s),
            bytes: bytes as u64,
            blocked_us: us(self.blocked_s),
            cpu_us: Some(us(self.cpu_s)),
            core_wait_us: Some(us(self.wait_s)),
            ..StreamSample::default()
        }
    }
}
