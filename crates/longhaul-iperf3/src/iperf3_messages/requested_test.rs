//! A client's request, checked against the ranges of 3.22.

use super::{CounterWidth, Iperf3Error, TestParameters};

/// The maximum number of parallel streams in one direction.
pub const MAX_STREAMS: i64 = 128;
const MAX_SECONDS: i64 = 86_400;
const MAX_OMIT_SECONDS: i64 = 600;
const MAX_BLOCK_BYTES: i64 = 1 << 20;
const DATAGRAM_BYTES: std::ops::RangeInclusive<i64> = 16..=65_507;
const MAX_WINDOW_BYTES: i64 = 512 << 20;
const MAX_MSS_BYTES: i64 = 32_767;
const MAX_BURST: i64 = 1000;
/// The kernel's limit for names of congestion controls: 15 letters and a zero.
const MAX_NAME_LETTERS: usize = 15;
const DEFAULT_BLOCK_BYTES: i64 = 128 << 10;
const DEFAULT_DATAGRAM_BYTES: i64 = 1460;
const DEFAULT_SECONDS: i64 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestTransport {
    Tcp,
    Udp,
}

/// The direction of the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestDirection {
    /// The client sends.
    Forward,
    /// The server sends.
    Reverse,
    Both,
}

/// The condition that ends a test, as announced by the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestLimit {
    Seconds(u32),
    /// The total of all streams.
    Bytes(u64),
    Blocks(u64),
}

/// A valid test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedTest {
    pub transport: TestTransport,
    pub direction: TestDirection,
    /// The number of streams in each direction.
    pub streams: u32,
    /// Seconds that are not counted, in addition to the time.
    pub omit_seconds: u32,
    pub limit: TestLimit,
    /// Size of a block or datagram.
    pub length_bytes: u32,
    pub window_bytes: Option<u32>,
    pub mss_bytes: Option<u16>,
    pub no_delay: bool,
    pub tos: u8,
    pub congestion: Option<String>,
    /// The rate of each stream.
    pub rate_bps: Option<u64>,
    /// The rate of each stream, limited by the kernel.
    pub fq_rate_bps: Option<u64>,
    pub zero_copy: bool,
    pub discards: bool,
    pub counters: CounterWidth,
    pub server_output: bool,
}

impl RequestedTest {
    /// # Errors
    /// The iperf3 error for the first value that is out of range.
    pub fn validate(asked: &TestParameters) -> Result<RequestedTest, Iperf3Error> {
        let transport = parse_transport(asked)?;
        // The engine sends evenly, but a burst out of range is refused as in iperf3.
        check_range(asked.burst, 0..=MAX_BURST, Iperf3Error::Burst)?;
        Ok(RequestedTest {
            transport,
            direction: parse_direction(asked)?,
            streams: check_range(asked.parallel, 1..=MAX_STREAMS, Iperf3Error::Streams)?
                .unwrap_or(1) as u32,
            omit_seconds: check_range(asked.omit, 0..=MAX_OMIT_SECONDS, Iperf3Error::Omit)?
                .unwrap_or(0) as u32,
            limit: parse_limit(asked)?,
            length_bytes: parse_length(asked, transport)?,
            window_bytes: check_positive(asked.window, MAX_WINDOW_BYTES, Iperf3Error::Window)?
                .map(|bytes| bytes as u32),
            mss_bytes: check_positive(asked.mss, MAX_MSS_BYTES, Iperf3Error::Mss)?
                .map(|bytes| bytes as u16),
            no_delay: asked.nodelay,
            tos: check_range(asked.tos, 0..=255, Iperf3Error::Tos)?.unwrap_or(0) as u8,
            congestion: parse_congestion(asked)?,
            rate_bps: parse_rate(asked.bandwidth, Iperf3Error::TotalRate)?,
            fq_rate_bps: parse_rate(asked.fqrate, Iperf3Error::Pacing)?,
            zero_copy: asked.zerocopy,
            discards: asked.skip_rx_copy,
            counters: if asked.udp_counters_64bit {
                CounterWidth::Bits64
            } else {
                CounterWidth::Bits32
            },
            server_output: asked.get_server_output,
        })
    }

    /// Returns the number of streams in both directions.
    pub fn all_streams(&self) -> usize {
        let ways = if self.direction == TestDirection::Both { 2 } else { 1 };
        ways * self.streams as usize
    }

    /// Returns whether the server sends on the stream that was opened at `index`. In bidirectional
    /// tests, the client first opens the streams on which it sends.
    pub fn server_sends(&self, index: usize) -> bool {
        match self.direction {
            TestDirection::Forward => false,
            TestDirection::Reverse => true,
            TestDirection::Both => index >= self.streams as usize,
        }
    }
}

fn check_range(
    value: Option<i64>,
    range: std::ops::RangeInclusive<i64>,
    trouble: Iperf3Error,
) -> Result<Option<i64>, Iperf3Error> {
    match value {
        Some(value) if !range.contains(&value) => Err(trouble),
        fine => Ok(fine),
    }
}

/// Checks a value of which iperf3 sends zero if nothing was requested.
fn check_positive(
    value: Option<i64>,
    most: i64,
    trouble: Iperf3Error,
) -> Result<Option<i64>, Iperf3Error> {
    Ok(check_range(value, 0..=most, trouble)?.filter(|&value| value > 0))
}

fn parse_transport(asked: &TestParameters) -> Result<TestTransport, Iperf3Error> {
    match (asked.sctp || asked.mptcp, asked.tcp, asked.udp) {
        (true, ..) => Err(Iperf3Error::Unimplemented),
        (_, true, true) => Err(Iperf3Error::Parameters),
        (_, _, true) => Ok(TestTransport::Udp),
        (_, _, false) => Ok(TestTransport::Tcp),
    }
}

fn parse_direction(asked: &TestParameters) -> Result<TestDirection, Iperf3Error> {
    match (asked.reverse, asked.bidirectional) {
        (true, true) => Err(Iperf3Error::ReverseAndBidirectional),
        (true, false) => Ok(TestDirection::Reverse),
        (false, true) => Ok(TestDirection::Both),
        (false, false) => Ok(TestDirection::Forward),
    }
}

fn parse_limit(asked: &TestParameters) -> Result<TestLimit, Iperf3Error> {
    let count = |value| check_positive(value, i64::MAX, Iperf3Error::EndConditions);
    let seconds = check_positive(asked.time, MAX_SECONDS, Iperf3Error::Duration)?;
    match (count(asked.num)?, count(asked.blockcount)?, seconds) {
        (Some(bytes), None, None) => Ok(TestLimit::Bytes(bytes as u64)),
        (None, Some(blocks), None) => Ok(TestLimit::Blocks(blocks as u64)),
        (None, None, seconds) => Ok(TestLimit::Seconds(seconds.unwrap_or(DEFAULT_SECONDS) as u32)),
        _ => Err(Iperf3Error::EndConditions),
    }
}

fn parse_length(asked: &TestParameters, transport: TestTransport) -> Result<u32, Iperf3Error> {
    let bytes = match transport {
        TestTransport::Tcp => check_positive(asked.len, MAX_BLOCK_BYTES, Iperf3Error::BlockSize)?
            .unwrap_or(DEFAULT_BLOCK_BYTES),
        TestTransport::Udp => check_range(asked.len, DATAGRAM_BYTES, Iperf3Error::DatagramSize)?
            .unwrap_or(DEFAULT_DATAGRAM_BYTES),
    };
    Ok(bytes as u32)
}

fn parse_rate(value: Option<i64>, trouble: Iperf3Error) -> Result<Option<u64>, Iperf3Error> {
    Ok(check_positive(value, i64::MAX, trouble)?.map(|rate| rate as u64))
}

/// Passes only valid names to the kernel.
fn parse_congestion(asked: &TestParameters) -> Result<Option<String>, Iperf3Error> {
    let Some(name) = &asked.congestion else {
        return Ok(None);
    };
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let fine = (1..=MAX_NAME_LETTERS).contains(&name.len()) && name.bytes().all(letter);
    fine.then(|| Some(name.clone())).ok_or(Iperf3Error::Congestion)
}
