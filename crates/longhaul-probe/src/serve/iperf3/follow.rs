//! Who follows iperf3's tests as they go, for a program that prints them as iperf3 does.

use crate::iperf3::server::Closed;
use crate::iperf3::wire::{Cookie, Parameters, Results, Test};
use serde_json::Value;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Is told of every test; called from the thread of each, so that it must not wait for long.
pub trait Follow: fmt::Debug + Send + Sync {
    /// A test was let in. All else of it is told to what this returns.
    fn accepted(self: Arc<Self>, accepted: Accepted) -> Box<dyn FollowTest>;

    /// A client was let go of before its test was let in.
    fn turned_away(&self, peer: SocketAddr, closed: &Closed);
}

/// Is told of one test, in this order; `finished` not for one whose client was lost.
pub trait FollowTest: Send {
    /// All its streams are open, and payload flows.
    fn started(&mut self, started: Started);
    fn interval(&mut self, interval: Interval);
    /// It is over. Returns what a client that asks for it gets as the server's output.
    fn finished(&mut self, totals: Totals<'_>) -> ServerOutput;
    fn closed(self: Box<Self>, closed: &Closed);
}

/// What is known when a test is let in.
#[derive(Debug, Clone)]
pub struct Accepted {
    /// Of the control connection.
    pub peer: SocketAddr,
    /// The port that the service listens on.
    pub port: u16,
    pub cookie: Cookie,
    /// As the client asked, and held to its ranges.
    pub asked: Parameters,
    pub test: Test,
}

/// One stream that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenStream {
    /// This end sends on it.
    pub sends: bool,
    pub local: SocketAddr,
    pub peer: SocketAddr,
}

/// The streams of a test in the order in which the client opened them.
#[derive(Debug, Clone, Default)]
pub struct Started {
    pub streams: Vec<OpenStream>,
    /// Of the first one, as the kernel keeps them.
    pub send_buffer_bytes: Option<u64>,
    pub receive_buffer_bytes: Option<u64>,
}

/// All streams in one interval; times count from where counting begins, or, of an interval that is
/// omitted, from the start.
#[derive(Debug, Clone, Default)]
pub struct Interval {
    pub from: Duration,
    pub to: Duration,
    pub omitted: bool,
    /// In the order of [`Started::streams`].
    pub streams: Vec<StreamInterval>,
}

/// What one stream did in an interval.
#[derive(Debug, Clone, Default)]
pub struct StreamInterval {
    pub sends: bool,
    pub bytes: u64,
    /// Segments sent again, of a TCP stream on which this end sends.
    pub resent: Option<u64>,
    /// Of the same, at the end.
    pub tcp: Option<TcpState>,
    pub datagrams: Option<Datagrams>,
}

/// What the kernel of a sender knows of its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpState {
    pub cwnd_bytes: u64,
    /// What the receiver has room for.
    pub peer_window_bytes: Option<u64>,
    pub rtt: Duration,
    pub rttvar: Duration,
    pub path_mtu_bytes: u64,
}

/// Datagrams of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Datagrams {
    /// Sent, or of those that were sent to here.
    pub count: u64,
    pub lost: u64,
    pub out_of_order: u64,
    /// At the end; a receiver's.
    pub jitter: Option<Duration>,
}

/// A whole test, without what was omitted.
#[derive(Debug, Clone)]
pub struct Totals<'a> {
    pub lasted: Duration,
    /// In the order of [`Started::streams`].
    pub streams: Vec<StreamInterval>,
    /// As the client is told them; of its processor shares nothing more is known.
    pub results: &'a Results,
    /// For a client that wants the server's output.
    pub verdict: Option<Verdict>,
}

/// What limited a sender of this end; else why that is not known.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// A paragraph each.
    pub words: Vec<String>,
    /// The same with its evidence.
    pub data: Value,
}

/// The server's output, for `--get-server-output`.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerOutput {
    Text(String),
    Json(Value),
}
