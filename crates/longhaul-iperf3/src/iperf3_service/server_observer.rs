//! Observers of iperf3 tests, for a program that prints them as iperf3 does.

use crate::iperf3_messages::{RequestedTest, TestCookie, TestParameters, TestResults};
use crate::server_protocol::ServerTestEnd;
use serde_json::Value;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// An observer of every test. It is called from each test's thread and must not block for long.
pub trait ServerTestObserver: fmt::Debug + Send + Sync {
    /// A test was admitted; the returned observer receives its further events.
    fn test_accepted(self: Arc<Self>, accepted: AcceptedTest) -> Box<dyn RunningTestObserver>;

    /// A connection was closed before its test was admitted.
    fn test_rejected(&self, peer: SocketAddr, closed: &ServerTestEnd);
}

/// An observer of one test, called in this order; `finished` is skipped for a lost client.
pub trait RunningTestObserver: Send {
    /// All streams are open, and payload flows.
    fn started(&mut self, started: StartedStreams);
    fn interval(&mut self, interval: IntervalReport);
    /// The test has ended. Returns the server output for a client that requests it.
    fn finished(&mut self, totals: TestTotals<'_>) -> ServerOutput;
    fn closed(self: Box<Self>, closed: &ServerTestEnd);
}

/// The data of an admitted test.
#[derive(Debug, Clone)]
pub struct AcceptedTest {
    /// The peer of the control connection.
    pub peer: SocketAddr,
    /// The port that the server listens on.
    pub port: u16,
    pub cookie: TestCookie,
    /// The client's request; `test` is the validated one.
    pub requested: TestParameters,
    pub test: RequestedTest,
}

/// A stream that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenStream {
    /// Set if this end sends on the stream.
    pub sends: bool,
    pub local: SocketAddr,
    pub peer: SocketAddr,
}

/// The streams of a test in the order in which the client opened them.
#[derive(Debug, Clone, Default)]
pub struct StartedStreams {
    pub streams: Vec<OpenStream>,
    /// Buffer sizes of the first stream, as the kernel stores them.
    pub send_buffer_bytes: Option<u64>,
    pub receive_buffer_bytes: Option<u64>,
}

/// All streams in one interval. Times are relative to the start of counting or, in an omitted
/// interval, to the start of the test.
#[derive(Debug, Clone, Default)]
pub struct IntervalReport {
    pub from: Duration,
    pub to: Duration,
    pub omitted: bool,
    /// The streams in the order of [`StartedStreams::streams`].
    pub streams: Vec<StreamInterval>,
}

/// The counts of one stream in an interval.
#[derive(Debug, Clone, Default)]
pub struct StreamInterval {
    pub sends: bool,
    pub bytes: u64,
    /// Retransmits of a TCP stream on which this end sends.
    pub retransmits: Option<u64>,
    /// The state of such a stream at the end of the interval.
    pub tcp: Option<TcpState>,
    pub datagrams: Option<DatagramCounts>,
}

/// The kernel's state of a sending stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpState {
    pub cwnd_bytes: u64,
    /// The receiver's advertised window.
    pub peer_window_bytes: Option<u64>,
    pub rtt: Duration,
    pub rttvar: Duration,
    pub path_mtu_bytes: u64,
}

/// The datagrams of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DatagramCounts {
    /// Sent by this end, or sent to it.
    pub count: u64,
    pub lost: u64,
    pub out_of_order: u64,
    /// At the end of the interval; receivers only.
    pub jitter: Option<Duration>,
}

/// The totals of a test without the omitted part.
#[derive(Debug, Clone)]
pub struct TestTotals<'a> {
    pub duration: Duration,
    /// The streams in the order of [`StartedStreams::streams`].
    pub streams: Vec<StreamInterval>,
    /// The results as sent to the client, including CPU use.
    pub results: &'a TestResults,
    /// Set for a client that requests the server output.
    pub verdict: Option<LimiterVerdict>,
}

/// The explanation of what limited this end's sender, or why that is unknown.
#[derive(Debug, Clone)]
pub struct LimiterVerdict {
    /// The paragraphs of the explanation.
    pub paragraphs: Vec<String>,
    /// The explanation as JSON, with its evidence.
    pub data: Value,
}

/// The server output for `--get-server-output`.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerOutput {
    Text(String),
    Json(Value),
}
