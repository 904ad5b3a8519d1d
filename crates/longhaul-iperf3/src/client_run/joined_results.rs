//! Joins our readings and the server's counts into one observation, and builds our own results.
//!
//! The server reports bytes and time of each stream, UDP datagrams and jitter, and its CPU use;
//! everything else about it is absent. Its first byte is assumed at the time of ours, because it
//! reports how long a stream lasted, not when it started.

use crate::iperf3_messages::{ResultsFault, StreamResults, TestResults, stream_id};
use crate::server_results::{build_results, streams_of};
use longhaul_model::report::v1::observation::{
    BothEnds, EndObservation, HostFacts, ObservedStream, StreamEnd, ThroughputObservation,
    UdpCounts,
};
use longhaul_model::report::v1::plan::{RunDirection, RunTransport, ThroughputPlan};
use longhaul_probe::engine::EngineResult;
use longhaul_probe::session_driver::SessionResults;
use longhaul_probe::throughput::payload_duration_us;
use std::time::Duration;

/// The counter for the server's retransmits.
const RETRANSMITS: &str = "iperf3.retransmits";

/// The data of the test besides the counts.
pub struct JoinContext<'a> {
    pub plan: &'a ThroughputPlan,
    pub host: &'a str,
    pub idle_rtt: Option<Duration>,
    pub same_host: bool,
}

/// Joins the results of both ends.
///
/// # Errors
/// It says which of the server's data is invalid.
pub fn join_ends(
    known: &JoinContext<'_>,
    collected: SessionResults,
    far: &TestResults,
) -> Result<ThroughputObservation, String> {
    let streams = known.plan.streams as usize;
    let all = if known.plan.direction == RunDirection::Both { 2 * streams } else { streams };
    let told = far.by_index(all).map_err(|fault: ResultsFault| fault.to_string())?;
    let one_way = |sends: bool, own: Option<EngineResult>, told: &[&StreamResults]| {
        let own = own.ok_or("no result from the engine of this end")?;
        join_direction(known, sends, own, far, told)
    };
    match known.plan.direction {
        RunDirection::Forward => one_way(true, collected.sender, &told),
        RunDirection::Reverse => one_way(false, collected.receiver, &told),
        RunDirection::Both => Ok(ThroughputObservation {
            reverse: Some(Box::new(one_way(false, collected.receiver, &told[streams..])?)),
            ..one_way(true, collected.sender, &told[..streams])?
        }),
    }
}

fn join_direction(
    known: &JoinContext<'_>,
    forward: bool,
    own: EngineResult,
    far: &TestResults,
    told: &[&StreamResults],
) -> Result<ThroughputObservation, String> {
    let udp = known.plan.transport != RunTransport::Tcp;
    let streams: Vec<ObservedStream> = own
        .streams
        .into_iter()
        .zip(told)
        .enumerate()
        .map(|(index, (own, told))| {
            let far = build_server_stream(&own, told, forward, udp, far.congestion_used.as_deref());
            let (sender, receiver) = if forward { (own, far) } else { (far, own) };
            ObservedStream { index: index as u32, sender, receiver }
        })
        .collect();
    if !udp && streams.iter().all(|stream| stream.receiver.bytes == 0) {
        return Err("no payload arrived at the receiver".to_owned());
    }
    let far_end = build_server_end(known.host, forward, far, told);
    let (sender, receiver) = if forward { (own.end, far_end) } else { (far_end, own.end) };
    Ok(ThroughputObservation {
        forward,
        elapsed_us: payload_duration_us(&streams),
        idle_rtt_us: known.idle_rtt.map(|rtt| rtt.as_micros() as u64),
        clock_error_us: None,
        same_host: known.same_host,
        same_boot: None,
        streams,
        ends: BothEnds { sender, receiver },
        reverse: None,
    })
}

/// Returns the server's end of a stream, from its results.
fn build_server_stream(
    own: &StreamEnd,
    told: &StreamResults,
    receives: bool,
    udp: bool,
    congestion: Option<&str>,
) -> StreamEnd {
    let lasted = |from: f64, to: f64| ((to - from).max(0.0) * 1e6).min(1e15) as u64;
    let packets = told.packets.max(0) as u64;
    let lost = (told.errors.max(0) as u64).min(packets);
    StreamEnd {
        local: own.peer.clone(),
        peer: own.local.clone(),
        bytes: told.bytes.max(0) as u64,
        started_us: own.started_us,
        // Version 3.1 does not report it.
        duration_us: told
            .start_time
            .zip(told.end_time)
            .map_or(own.duration_us, |(from, to)| lasted(from, to)),
        // It reports no calls for TCP.
        calls: udp.then_some(if receives { packets - lost } else { packets }),
        congestion_control: congestion.filter(|_| !receives && !udp).map(str::to_owned),
        udp: (receives && udp).then(|| UdpCounts {
            datagrams: packets - lost,
            lost,
            jitter_ns: Some((told.jitter.clamp(0.0, 1e6) * 1e9) as u64),
            ..UdpCounts::default()
        }),
        ..StreamEnd::default()
    }
}

fn build_server_end(
    host: &str,
    receives: bool,
    far: &TestResults,
    told: &[&StreamResults],
) -> EndObservation {
    let seconds = |stream: &&StreamResults| Some(stream.end_time? - stream.start_time?);
    let lasted = told.iter().filter_map(seconds).fold(0.0, f64::max);
    let spent = |percent: f64| {
        let us = percent.max(0.0) * lasted * 1e4;
        (lasted > 0.0).then_some(us.min(1e15) as u64)
    };
    let resent = told.iter().map(|stream| u64::try_from(stream.retransmits).ok());
    let resent = resent.reduce(|all, more| Some(all?.saturating_add(more?))).flatten();
    EndObservation {
        host: HostFacts { name: host.to_owned(), ..HostFacts::default() },
        bytes: told.iter().map(|it| it.bytes.max(0) as u64).fold(0, u64::saturating_add),
        cpu_user_us: spent(far.cpu_util_user),
        cpu_system_us: spent(far.cpu_util_system),
        protocol: resent
            .filter(|_| !receives && far.sender_has_retransmits == 1)
            .map(|count| (RETRANSMITS.to_owned(), count))
            .into_iter()
            .collect(),
        ..EndObservation::default()
    }
}

/// Returns this end's results for the server.
pub(super) fn build_client_results(collected: &SessionResults) -> TestResults {
    let sending = streams_of(collected.sender.as_ref()).iter().map(|stream| (stream, true));
    let receiving = streams_of(collected.receiver.as_ref()).iter().map(|stream| (stream, false));
    let streams = sending.chain(receiving);
    let streams: Vec<StreamResults> = streams
        .enumerate()
        .map(|(index, (stream, sends))| build_client_stream(stream_id(index), stream, sends))
        .collect();
    let lasted = streams.iter().filter_map(|stream| stream.end_time).fold(0.0, f64::max);
    let knows = streams.iter().any(|stream| stream.retransmits >= 0);
    let sender_has_retransmits = collected.sender.as_ref().map_or(-1, |_| i64::from(knows));
    build_results(collected, lasted, sender_has_retransmits, streams)
}

fn build_client_stream(id: i64, stream: &StreamEnd, sends: bool) -> StreamResults {
    let whole = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let last = stream.samples.iter().rev().find_map(|sample| sample.tcp.as_ref());
    let udp = stream.udp.unwrap_or_default();
    let is_udp = stream.udp.is_some();
    StreamResults {
        id,
        bytes: whole(stream.bytes),
        retransmits: match last {
            Some(tcp) if sends => whole(tcp.retransmitted_segments),
            _ => -1,
        },
        jitter: udp.jitter_ns.unwrap_or(0) as f64 / 1e9,
        errors: whole(udp.lost),
        omitted_errors: Some(0),
        packets: if is_udp {
            whole(udp.datagrams + udp.lost)
        } else {
            whole(stream.calls.unwrap_or(0))
        },
        omitted_packets: Some(0),
        start_time: Some(0.0),
        end_time: Some(stream.duration_us as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(bytes: u64) -> EngineResult {
        let stream =
            StreamEnd { bytes, started_us: 1000, duration_us: 2_000_000, ..StreamEnd::default() };
        EngineResult { streams: vec![stream], end: EndObservation::default(), caveats: Vec::new() }
    }

    fn far(bytes: i64, id: i64) -> TestResults {
        TestResults {
            cpu_util_user: 50.0,
            sender_has_retransmits: 1,
            streams: vec![StreamResults {
                id,
                bytes,
                retransmits: 7,
                start_time: Some(0.0),
                end_time: Some(2.0),
                ..StreamResults::default()
            }],
            ..TestResults::default()
        }
    }

    fn joined(
        direction: RunDirection,
        told: &TestResults,
    ) -> Result<ThroughputObservation, String> {
        let plan = ThroughputPlan { direction, ..ThroughputPlan::default() };
        let known = JoinContext { plan: &plan, host: "far", idle_rtt: None, same_host: false };
        let collected = match direction {
            RunDirection::Forward => SessionResults { sender: Some(own(5)), receiver: None },
            _ => SessionResults { sender: None, receiver: Some(own(5)) },
        };
        join_ends(&known, collected, told)
    }

    #[test]
    fn bytes_of_the_receiver_are_whoever_received_them() {
        let forward = joined(RunDirection::Forward, &far(3, 1)).expect("a result");
        let stream = &forward.streams[0];
        assert_eq!((stream.sender.bytes, stream.receiver.bytes), (5, 3));
        assert_eq!(forward.elapsed_us, 2_000_000);
        assert_eq!(forward.ends.receiver.cpu_user_us, Some(1_000_000));
        assert!(forward.ends.receiver.protocol.is_empty());
        let reverse = joined(RunDirection::Reverse, &far(8, 1)).expect("a result");
        let stream = &reverse.streams[0];
        assert_eq!((stream.sender.bytes, stream.receiver.bytes), (8, 5));
        assert_eq!(reverse.ends.sender.protocol[RETRANSMITS], 7);
    }

    #[test]
    fn results_of_other_streams_or_of_nothing_are_no_results() {
        let other = joined(RunDirection::Forward, &far(3, 2)).expect_err("no stream 1");
        assert!(other.contains("stream 1"), "{other}");
        let nothing = joined(RunDirection::Forward, &far(0, 1)).expect_err("nothing came");
        assert!(nothing.contains("no payload"), "{nothing}");
    }

    #[test]
    fn what_we_tell_is_what_servers_ask_for() {
        let collected = SessionResults { sender: Some(own(5)), receiver: Some(own(6)) };
        let told = build_client_results(&collected);
        let streams = told.by_index(2).expect("both, in order");
        assert_eq!((streams[0].bytes, streams[1].bytes), (5, 6));
        assert_eq!(streams[1].retransmits, -1);
    }
}
