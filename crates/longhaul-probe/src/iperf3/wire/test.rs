//! A client's request, checked against the ranges of 3.22.

use super::{Counters, Parameters, Trouble};

/// The maximum number of parallel streams in one direction.
pub const MOST_STREAMS: i64 = 128;
const MOST_SECONDS: i64 = 86_400;
const MOST_OMIT_SECONDS: i64 = 600;
const MOST_BLOCK_BYTES: i64 = 1 << 20;
const DATAGRAM_BYTES: std::ops::RangeInclusive<i64> = 16..=65_507;
const MOST_WINDOW_BYTES: i64 = 512 << 20;
const MOST_MSS_BYTES: i64 = 32_767;
const MOST_BURST: i64 = 1000;
/// The kernel's limit for names of congestion controls: 15 letters and a zero.
const MOST_NAME_LETTERS: usize = 15;
const DEFAULT_BLOCK_BYTES: i64 = 128 << 10;
const DEFAULT_DATAGRAM_BYTES: i64 = 1460;
const DEFAULT_SECONDS: i64 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Tcp,
    Udp,
}

/// The direction of the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The client sends.
    Forward,
    /// The server sends.
    Reverse,
    Both,
}

/// The condition that ends a test, as announced by the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    Seconds(u32),
    /// The total of all streams.
    Bytes(u64),
    Blocks(u64),
}

/// A valid test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    pub transport: Transport,
    pub direction: Direction,
    /// The number of streams in each direction.
    pub streams: u32,
    /// Seconds that are not counted, in addition to the time.
    pub omit_seconds: u32,
    pub limit: Limit,
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
    /// Blocks sent at once under `rate_bps`.
    pub burst: u32,
    pub zero_copy: bool,
    pub discards: bool,
    pub repeating_payload: bool,
    pub do_not_fragment: bool,
    pub counters: Counters,
    pub server_output: bool,
}

impl Test {
    /// # Errors
    /// The iperf3 error for the first value that is out of range.
    pub fn of(asked: &Parameters) -> Result<Test, Trouble> {
        let transport = transport(asked)?;
        Ok(Test {
            transport,
            direction: direction(asked)?,
            streams: within(asked.parallel, 1..=MOST_STREAMS, Trouble::Streams)?.unwrap_or(1)
                as u32,
            omit_seconds: within(asked.omit, 0..=MOST_OMIT_SECONDS, Trouble::Omit)?.unwrap_or(0)
                as u32,
            limit: limit(asked)?,
            length_bytes: length(asked, transport)?,
            window_bytes: positive(asked.window, MOST_WINDOW_BYTES, Trouble::Window)?
                .map(|bytes| bytes as u32),
            mss_bytes: positive(asked.mss, MOST_MSS_BYTES, Trouble::Mss)?.map(|bytes| bytes as u16),
            no_delay: asked.nodelay,
            tos: within(asked.tos, 0..=255, Trouble::Tos)?.unwrap_or(0) as u8,
            congestion: congestion(asked)?,
            rate_bps: rate(asked.bandwidth, Trouble::TotalRate)?,
            fq_rate_bps: rate(asked.fqrate, Trouble::Pacing)?,
            burst: within(asked.burst, 0..=MOST_BURST, Trouble::Burst)?.unwrap_or(0) as u32,
            zero_copy: asked.zerocopy,
            discards: asked.skip_rx_copy,
            repeating_payload: asked.repeating_payload,
            do_not_fragment: asked.dont_fragment,
            counters: if asked.udp_counters_64bit {
                Counters::Bits64
            } else {
                Counters::Bits32
            },
            server_output: asked.get_server_output,
        })
    }

    /// Returns the number of streams in both directions.
    pub fn all_streams(&self) -> usize {
        let ways = if self.direction == Direction::Both {
            2
        } else {
            1
        };
        ways * self.streams as usize
    }

    /// Returns whether the server sends on the stream that was opened at `index`. In bidirectional
    /// tests, the client first opens the streams on which it sends.
    pub fn server_sends(&self, index: usize) -> bool {
        match self.direction {
            Direction::Forward => false,
            Direction::Reverse => true,
            Direction::Both => index >= self.streams as usize,
        }
    }
}

fn within(
    value: Option<i64>,
    range: std::ops::RangeInclusive<i64>,
    trouble: Trouble,
) -> Result<Option<i64>, Trouble> {
    match value {
        Some(value) if !range.contains(&value) => Err(trouble),
        fine => Ok(fine),
    }
}

/// Checks a value of which iperf3 sends zero if nothing was requested.
fn positive(value: Option<i64>, most: i64, trouble: Trouble) -> Result<Option<i64>, Trouble> {
    Ok(within(value, 0..=most, trouble)?.filter(|&value| value > 0))
}

fn transport(asked: &Parameters) -> Result<Transport, Trouble> {
    match (asked.sctp || asked.mptcp, asked.tcp, asked.udp) {
        (true, ..) => Err(Trouble::Unimplemented),
        (_, true, true) => Err(Trouble::Parameters),
        (_, _, true) => Ok(Transport::Udp),
        (_, _, false) => Ok(Transport::Tcp),
    }
}

fn direction(asked: &Parameters) -> Result<Direction, Trouble> {
    match (asked.reverse, asked.bidirectional) {
        (true, true) => Err(Trouble::ReverseAndBidirectional),
        (true, false) => Ok(Direction::Reverse),
        (false, true) => Ok(Direction::Both),
        (false, false) => Ok(Direction::Forward),
    }
}

fn limit(asked: &Parameters) -> Result<Limit, Trouble> {
    let count = |value| positive(value, i64::MAX, Trouble::EndConditions);
    let seconds = positive(asked.time, MOST_SECONDS, Trouble::Duration)?;
    match (count(asked.num)?, count(asked.blockcount)?, seconds) {
        (Some(bytes), None, None) => Ok(Limit::Bytes(bytes as u64)),
        (None, Some(blocks), None) => Ok(Limit::Blocks(blocks as u64)),
        (None, None, seconds) => Ok(Limit::Seconds(seconds.unwrap_or(DEFAULT_SECONDS) as u32)),
        _ => Err(Trouble::EndConditions),
    }
}

fn length(asked: &Parameters, transport: Transport) -> Result<u32, Trouble> {
    let bytes = match transport {
        Transport::Tcp => positive(asked.len, MOST_BLOCK_BYTES, Trouble::BlockSize)?
            .unwrap_or(DEFAULT_BLOCK_BYTES),
        Transport::Udp => within(asked.len, DATAGRAM_BYTES, Trouble::DatagramSize)?
            .unwrap_or(DEFAULT_DATAGRAM_BYTES),
    };
    Ok(bytes as u32)
}

fn rate(value: Option<i64>, trouble: Trouble) -> Result<Option<u64>, Trouble> {
    Ok(positive(value, i64::MAX, trouble)?.map(|rate| rate as u64))
}

/// Passes only valid names to the kernel.
fn congestion(asked: &Parameters) -> Result<Option<String>, Trouble> {
    let Some(name) = &asked.congestion else {
        return Ok(None);
    };
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let fine = (1..=MOST_NAME_LETTERS).contains(&name.len()) && name.bytes().all(letter);
    fine.then(|| Some(name.clone())).ok_or(Trouble::Congestion)
}
