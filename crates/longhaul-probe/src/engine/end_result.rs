//! The results of one end after its run.

use super::SampleSeries;
use super::StreamOutcome;
use super::end_host::{self, CounterBaseline};
use super::end_run::{EngineShared, StreamState};
use super::sockets::DataSocket;
use super::{EngineResult, TransferRole};
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::observation::{CoreUsage, SocketBuffer, StreamEnd, StreamSample};
use longhaul_sys::sockopt::SockRef;
use longhaul_sys::{sockopt, tcp_info};
use std::io;

/// Assembles the results of this end, and prepares the sockets for closing.
pub(super) fn collect_result(
    shared: &EngineShared,
    series: SampleSeries,
    cores: Vec<CoreUsage>,
    mut caveats: Vec<ReportCaveat>,
) -> EngineResult {
    let parts = shared.streams.iter().zip(series.into_streams());
    let mut streams = Vec::with_capacity(shared.streams.len());
    for (stream, samples) in parts {
        let mut outcome = stream.outcome.lock();
        caveats.append(&mut outcome.caveats);
        streams.push(describe_stream(shared, stream, &outcome, samples));
        if shared.role == TransferRole::Sender && !shared.stop.must_drain() && is_tcp(stream) {
            // If this fails, closing sends the rest, which only takes longer.
            let _ = sockopt::set_abort_on_close(&stream.socket);
        }
    }
    let baseline = shared
        .take_baseline()
        .unwrap_or_else(|| CounterBaseline::take(shared.interface.as_deref()));
    EngineResult { end: end_host::describe_end(shared, &baseline, cores), streams, caveats }
}

fn describe_stream(
    shared: &EngineShared,
    stream: &StreamState,
    outcome: &StreamOutcome,
    samples: Vec<StreamSample>,
) -> StreamEnd {
    let (local, peer) = stream.addresses;
    let plan = &shared.spec.plan;
    let buffer = |asked_bytes, stored: io::Result<usize>| {
        let stored_bytes = stored.ok()? as u64;
        Some(SocketBuffer { asked_bytes, granted_bytes: stored_bytes / 2, stored_bytes })
    };
    let info = tcp_info::read_tcp_info(&stream.socket).ok();
    let span_ns = stream.counters.span_ns();
    StreamEnd {
        local: local.map(|address| address.to_string()),
        peer: peer.map(|address| address.to_string()),
        bytes: stream.counters.bytes(),
        started_us: span_ns.map_or(0, |(first, _)| first / 1000),
        duration_us: span_ns.map_or(0, |(first, last)| (last - first) / 1000),
        calls: Some(stream.counters.calls()),
        blocked_us: Some(stream.counters.blocked_us()),
        cpu_us: stream.counters.thread_times_us().0,
        core: outcome.core,
        send_buffer: buffer(
            plan.send_buffer_bytes,
            SockRef::from(&stream.socket).send_buffer_size(),
        ),
        receive_buffer: buffer(
            plan.receive_buffer_bytes,
            SockRef::from(&stream.socket).recv_buffer_size(),
        ),
        mss_bytes: info.as_ref().map(|info| info.reading.mss_bytes as u32),
        congestion_control: sockopt::congestion_control(&stream.socket).ok(),
        options: info.map(|info| info.options),
        udp: outcome.udp,
        error: outcome.error.clone(),
        samples,
    }
}

fn is_tcp(stream: &StreamState) -> bool {
    matches!(stream.socket, DataSocket::Tcp(_))
}
