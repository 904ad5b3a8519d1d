//! Converts a plan to the parameters of an iperf3 test, and reports what such a test cannot do.
//!
//! The omitted time is handled at this end: the server counts the whole run, so that the bytes of
//! both ends cover the same time.

use crate::iperf3_messages::TestParameters;
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::plan::{
    CoreAffinity, ReceiveMode, RunDirection, RunTransport, StopCondition, ThroughputPlan,
};
use longhaul_probe::plan_limits::LimitError;

/// The default block size, as in iperf3.
const BLOCK_BYTES: u64 = 128 << 10;
const MAX_BLOCK_BYTES: u64 = 1 << 20;
const MAX_WINDOW_BYTES: u64 = 512 << 20;
const MICROS: u64 = 1_000_000;
/// iperf3 sends it in every test since 3.2; uiperf3's server fails without it.
const PACING_TIMER_US: i64 = 1000;

/// # Errors
/// The plan contains something that no iperf3 server does.
pub(super) fn check_iperf3_plan(plan: &ThroughputPlan) -> Result<(), LimitError> {
    let no = |option, asked: &str, allowed: &str| {
        Err(LimitError { option, asked: asked.to_owned(), allowed: allowed.to_owned() })
    };
    let far_reads = plan.direction != RunDirection::Reverse;
    let block = plan.write_bytes.filter(|_| plan.transport == RunTransport::Tcp);
    let window = plan.send_buffer_bytes.max(plan.receive_buffer_bytes);
    if block.is_some_and(|bytes| bytes > MAX_BLOCK_BYTES) {
        return no("write_bytes", "above 1 MiB", "up to 1 MiB with an iperf3 server");
    }
    if window.is_some_and(|bytes| bytes > MAX_WINDOW_BYTES) {
        return no("buffer", "above 512 MiB", "up to 512 MiB with an iperf3 server");
    }
    if far_reads && plan.read_rate_bps.is_some() {
        return no("read_rate_bps", "of an iperf3 server", "only where this end reads");
    }
    if far_reads && plan.read_bytes.is_some() {
        return no("read_bytes", "of an iperf3 server", "only where this end reads");
    }
    if plan.direction != RunDirection::Forward && plan.scavenger {
        return no("scavenger", "of an iperf3 server", "only where this end sends");
    }
    if plan.capture.is_some_and(|capture| capture.far) {
        return no("capture", "at an iperf3 server", "at this end only");
    }
    match &plan.affinity {
        CoreAffinity::Cores { responder, .. } if responder.len() > 1 => {
            no("affinity", "a list for an iperf3 server", "one core there, or none")
        }
        _ => Ok(()),
    }
}

/// Returns the parameters for the server; `datagram_bytes` is the datagram payload of a UDP run.
pub(super) fn build_parameters(plan: &ThroughputPlan, datagram_bytes: u64) -> TestParameters {
    let udp_rate_bps = match plan.transport {
        RunTransport::Tcp => None,
        RunTransport::Udp { rate_bps } => Some(rate_bps),
    };
    let length = match udp_rate_bps {
        Some(_) => datagram_bytes,
        None => tcp_block_bytes(plan),
    };
    let each = |all: u64| to_i64(all / u64::from(plan.streams.max(1)));
    let (time, num, blockcount) = convert_stop(plan.stop);
    TestParameters {
        tcp: udp_rate_bps.is_none(),
        udp: udp_rate_bps.is_some(),
        omit: Some(0),
        server_affinity: choose_server_core(&plan.affinity),
        time: Some(time),
        num: Some(num),
        blockcount: Some(blockcount),
        mss: plan.mss_bytes.map(i64::from),
        nodelay: plan.no_delay,
        parallel: Some(i64::from(plan.streams)),
        reverse: plan.direction == RunDirection::Reverse,
        bidirectional: plan.direction == RunDirection::Both,
        window: choose_window(plan).map(to_i64),
        len: Some(to_i64(length)),
        bandwidth: udp_rate_bps.or(plan.write_rate_bps).map(each),
        fqrate: plan.pacing_bps.map(to_i64),
        pacing_timer: Some(PACING_TIMER_US),
        dont_fragment: plan.dont_fragment,
        tos: plan.dscp.map(|dscp| i64::from(dscp) << 2),
        congestion: plan.congestion_control.clone(),
        udp_counters_64bit: udp_rate_bps.is_some(),
        zerocopy: plan.zero_copy && plan.direction != RunDirection::Forward,
        skip_rx_copy: plan.mode == ReceiveMode::Wire,
        client_version: Some(concat!("longhaul ", env!("CARGO_PKG_VERSION")).to_owned()),
        ..TestParameters::default()
    }
}

/// Returns the size of a TCP write; for a plan with defaults filled in, also of a datagram.
pub(super) fn tcp_block_bytes(plan: &ThroughputPlan) -> u64 {
    plan.write_bytes.unwrap_or(BLOCK_BYTES)
}

/// Returns the caveats about what an iperf3 server does not report or may not do.
pub(super) fn list_caveats(plan: &ThroughputPlan) -> Vec<ReportCaveat> {
    let sends = "the server is iperf3: it reports only bytes, retransmits and CPU time of its \
                 sender, which rarely show what limited the run";
    let reads = "the server is iperf3: it reports only bytes and CPU time of its receiver; the \
                 arrival times are those of the acknowledgements from its kernel";
    let datagrams = "the server is iperf3: it reports neither duplicates nor reordering of the \
                     datagrams that it received; these counts are absent";
    let mut caveats = Vec::new();
    let mut add = |text: &str| caveats.push(ReportCaveat::new("iperf3_far_end", text));
    let udp = plan.transport != RunTransport::Tcp;
    match (plan.direction, udp) {
        (RunDirection::Forward, false) => add(reads),
        (RunDirection::Forward, true) => add(datagrams),
        (RunDirection::Reverse, _) => add(sends),
        (RunDirection::Both, _) => {
            add(if udp { datagrams } else { reads });
            add(sends);
        }
    }
    if plan.mode == ReceiveMode::Wire && plan.direction != RunDirection::Reverse {
        add("iperf3 servers discard payload in the kernel only since 3.19: this run may be \
             `delivered` there");
    }
    caveats
}

/// Rounds up to whole seconds; the client ends the test.
fn convert_stop(stop: StopCondition) -> (i64, i64, i64) {
    match stop {
        StopCondition::TimeUs(time) => (to_i64(time.div_ceil(MICROS)), 0, 0),
        StopCondition::Bytes(bytes) => (0, to_i64(bytes), 0),
        StopCondition::Blocks(blocks) => (0, 0, to_i64(blocks)),
    }
}

/// Returns iperf3's single size for both buffers: that of the deciding end.
fn choose_window(plan: &ThroughputPlan) -> Option<u64> {
    match plan.direction {
        RunDirection::Forward => plan.receive_buffer_bytes.or(plan.send_buffer_bytes),
        RunDirection::Reverse => plan.send_buffer_bytes.or(plan.receive_buffer_bytes),
        RunDirection::Both => plan.send_buffer_bytes.max(plan.receive_buffer_bytes),
    }
}

fn choose_server_core(affinity: &CoreAffinity) -> Option<i64> {
    match affinity {
        CoreAffinity::Cores { responder, .. } => responder.first().map(|core| i64::from(*core)),
        CoreAffinity::Auto | CoreAffinity::Off => None,
    }
}

fn to_i64(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iperf3_messages::RequestedTest;

    #[test]
    fn a_plan_becomes_a_test_that_servers_take() {
        let plan = ThroughputPlan {
            direction: RunDirection::Both,
            transport: RunTransport::Udp { rate_bps: 4_000_000 },
            streams: 4,
            stop: StopCondition::TimeUs(2_500_000),
            send_buffer_bytes: Some(1 << 20),
            dscp: Some(46),
            ..ThroughputPlan::default()
        };
        let test = RequestedTest::validate(&build_parameters(&plan, 1448)).expect("in range");
        assert_eq!(test.plan.direction, RunDirection::Both);
        assert_eq!(test.plan.stop, StopCondition::TimeUs(3_000_000));
        assert_eq!(test.plan.transport, RunTransport::Udp { rate_bps: 4_000_000 });
        assert_eq!(test.plan.write_bytes, Some(1448));
        assert_eq!((test.plan.send_buffer_bytes, test.plan.dscp), (Some(1 << 20), Some(46)));
        let bytes =
            ThroughputPlan { stop: StopCondition::Bytes(1 << 30), ..ThroughputPlan::default() };
        let test = RequestedTest::validate(&build_parameters(&bytes, 0)).expect("in range");
        assert_eq!(test.plan.stop, StopCondition::Bytes(1 << 30));
        assert_eq!(test.plan.write_bytes, Some(128 << 10));
    }

    #[test]
    fn what_no_server_of_iperf3_does_is_refused_by_name() {
        let far_reader =
            ThroughputPlan { read_rate_bps: Some(1_000_000), ..ThroughputPlan::default() };
        let error = check_iperf3_plan(&far_reader).expect_err("it cannot be asked");
        assert_eq!(error.option, "read_rate_bps");
        let own_reader = ThroughputPlan { direction: RunDirection::Reverse, ..far_reader };
        assert_eq!(check_iperf3_plan(&own_reader), Ok(()));
    }
}
