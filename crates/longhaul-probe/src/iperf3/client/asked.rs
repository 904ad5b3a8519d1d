//! Converts a plan to the parameters of an iperf3 test, and reports what such a test cannot do.
//!
//! The omitted time is handled at this end: the server counts the whole run, so that the bytes of
//! both ends cover the same time.

use crate::iperf3::wire::Parameters;
use crate::limits::LimitError;
use longhaul_model::report::v1::Caveat;
use longhaul_model::report::v1::plan::{Affinity, Direction, Mode, Plan, Stop, Transport};

/// The default block size, as in iperf3.
const BLOCK_BYTES: u64 = 128 << 10;
const MOST_BLOCK_BYTES: u64 = 1 << 20;
const MOST_WINDOW_BYTES: u64 = 512 << 20;
const MICROS: u64 = 1_000_000;
/// iperf3 sends it in every test since 3.2; uiperf3's server fails without it.
const PACING_TIMER_US: i64 = 1000;

/// # Errors
/// The plan contains something that no iperf3 server does.
pub(super) fn check(plan: &Plan) -> Result<(), LimitError> {
    let no = |option, asked: &str, allowed: &str| {
        Err(LimitError {
            option,
            asked: asked.to_owned(),
            allowed: allowed.to_owned(),
        })
    };
    let far_reads = plan.direction != Direction::Reverse;
    let block = plan
        .write_bytes
        .filter(|_| plan.transport == Transport::Tcp);
    let window = plan.send_buffer_bytes.max(plan.receive_buffer_bytes);
    if block.is_some_and(|bytes| bytes > MOST_BLOCK_BYTES) {
        return no(
            "write_bytes",
            "above 1 MiB",
            "up to 1 MiB with an iperf3 server",
        );
    }
    if window.is_some_and(|bytes| bytes > MOST_WINDOW_BYTES) {
        return no(
            "buffer",
            "above 512 MiB",
            "up to 512 MiB with an iperf3 server",
        );
    }
    if far_reads && plan.read_rate_bps.is_some() {
        return no(
            "read_rate_bps",
            "of an iperf3 server",
            "only where this end reads",
        );
    }
    if far_reads && plan.read_bytes.is_some() {
        return no(
            "read_bytes",
            "of an iperf3 server",
            "only where this end reads",
        );
    }
    if plan.direction != Direction::Forward && plan.scavenger {
        return no(
            "scavenger",
            "of an iperf3 server",
            "only where this end sends",
        );
    }
    if plan.start_at_us.is_some() {
        return no("start_at", "with an iperf3 server", "at once");
    }
    if plan.capture.is_some_and(|capture| capture.far) {
        return no("capture", "at an iperf3 server", "at this end only");
    }
    match &plan.affinity {
        Affinity::Cores { responder, .. } if responder.len() > 1 => no(
            "affinity",
            "a list for an iperf3 server",
            "one core there, or none",
        ),
        _ => Ok(()),
    }
}

/// Returns the parameters for the server; `datagram_bytes` is the datagram payload of a UDP run.
pub(super) fn parameters(plan: &Plan, datagram_bytes: u64) -> Parameters {
    let udp_rate_bps = match plan.transport {
        Transport::Tcp => None,
        Transport::Udp { rate_bps } => Some(rate_bps),
    };
    let length = match udp_rate_bps {
        Some(_) => datagram_bytes,
        None => block_bytes(plan),
    };
    let each = |all: u64| whole(all / u64::from(plan.streams.max(1)));
    let (time, num, blockcount) = stop(plan.stop);
    Parameters {
        tcp: udp_rate_bps.is_none(),
        udp: udp_rate_bps.is_some(),
        omit: Some(0),
        server_affinity: far_core(&plan.affinity),
        time: Some(time),
        num: Some(num),
        blockcount: Some(blockcount),
        mss: plan.mss_bytes.map(i64::from),
        nodelay: plan.no_delay,
        parallel: Some(i64::from(plan.streams)),
        reverse: plan.direction == Direction::Reverse,
        bidirectional: plan.direction == Direction::Both,
        window: window(plan).map(whole),
        len: Some(whole(length)),
        bandwidth: udp_rate_bps.or(plan.write_rate_bps).map(each),
        fqrate: plan.pacing_bps.map(whole),
        pacing_timer: Some(PACING_TIMER_US),
        tos: plan.dscp.map(|dscp| i64::from(dscp) << 2),
        congestion: plan.congestion_control.clone(),
        udp_counters_64bit: udp_rate_bps.is_some(),
        zerocopy: plan.zero_copy && plan.direction != Direction::Forward,
        skip_rx_copy: plan.mode == Mode::Wire,
        client_version: Some(concat!("longhaul ", env!("CARGO_PKG_VERSION")).to_owned()),
        ..Parameters::default()
    }
}

/// Returns the size of a TCP write; for a plan with defaults filled in, also of a datagram.
pub(super) fn block_bytes(plan: &Plan) -> u64 {
    plan.write_bytes.unwrap_or(BLOCK_BYTES)
}

/// Returns the caveats about what an iperf3 server does not report or may not do.
pub(super) fn caveats(plan: &Plan) -> Vec<Caveat> {
    let sends = "the far end is iperf3: of its sender only bytes, retransmissions and processor \
                 time are known, so that what limited the run can hardly be told";
    let reads = "the far end is iperf3: of its receiver only bytes and processor time are known; \
                 when they arrived is told by what its kernel acknowledged";
    let datagrams = "the far end is iperf3, which tells neither duplicates nor the order of \
                     datagrams that it received: these counts are absent";
    let mut caveats = Vec::new();
    let mut add = |text: &str| caveats.push(Caveat::new("iperf3_far_end", text));
    let udp = plan.transport != Transport::Tcp;
    match (plan.direction, udp) {
        (Direction::Forward, false) => add(reads),
        (Direction::Forward, true) => add(datagrams),
        (Direction::Reverse, _) => add(sends),
        (Direction::Both, _) => {
            add(if udp { datagrams } else { reads });
            add(sends);
        }
    }
    if plan.mode == Mode::Wire && plan.direction != Direction::Reverse {
        add(
            "an iperf3 server discards payload in its kernel since 3.19 only: this run may be \
             `delivered` there",
        );
    }
    caveats
}

/// Rounds up to whole seconds; the client ends the test.
fn stop(stop: Stop) -> (i64, i64, i64) {
    match stop {
        Stop::TimeUs(time) => (whole(time.div_ceil(MICROS)), 0, 0),
        Stop::Bytes(bytes) => (0, whole(bytes), 0),
        Stop::Blocks(blocks) => (0, 0, whole(blocks)),
    }
}

/// Returns iperf3's single size for both buffers: that of the deciding end.
fn window(plan: &Plan) -> Option<u64> {
    match plan.direction {
        Direction::Forward => plan.receive_buffer_bytes.or(plan.send_buffer_bytes),
        Direction::Reverse => plan.send_buffer_bytes.or(plan.receive_buffer_bytes),
        Direction::Both => plan.send_buffer_bytes.max(plan.receive_buffer_bytes),
    }
}

fn far_core(affinity: &Affinity) -> Option<i64> {
    match affinity {
        Affinity::Cores { responder, .. } => responder.first().map(|core| i64::from(*core)),
        Affinity::Auto | Affinity::Off => None,
    }
}

fn whole(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iperf3::wire::{self, Test};

    #[test]
    fn a_plan_becomes_a_test_that_servers_take() {
        let plan = Plan {
            direction: Direction::Both,
            transport: Transport::Udp {
                rate_bps: 4_000_000,
            },
            streams: 4,
            stop: Stop::TimeUs(2_500_000),
            send_buffer_bytes: Some(1 << 20),
            dscp: Some(46),
            ..Plan::default()
        };
        let test = Test::of(&parameters(&plan, 1448)).expect("in range");
        assert_eq!(test.direction, wire::Direction::Both);
        assert_eq!(test.limit, wire::Limit::Seconds(3));
        assert_eq!((test.length_bytes, test.rate_bps), (1448, Some(1_000_000)));
        assert_eq!((test.window_bytes, test.tos), (Some(1 << 20), 184));
        let bytes = Plan {
            stop: Stop::Bytes(1 << 30),
            ..Plan::default()
        };
        let test = Test::of(&parameters(&bytes, 0)).expect("in range");
        assert_eq!(test.limit, wire::Limit::Bytes(1 << 30));
        assert_eq!(test.length_bytes, 128 << 10);
    }

    #[test]
    fn what_no_server_of_iperf3_does_is_refused_by_name() {
        let far_reader = Plan {
            read_rate_bps: Some(1_000_000),
            ..Plan::default()
        };
        let error = check(&far_reader).expect_err("it cannot be asked");
        assert_eq!(error.option, "read_rate_bps");
        let own_reader = Plan {
            direction: Direction::Reverse,
            ..far_reader
        };
        assert_eq!(check(&own_reader), Ok(()));
    }
}
