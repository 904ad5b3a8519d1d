//! The results of one end after its run.

use super::end::{self, Baseline};
use super::run::{Shared, StreamState};
use super::series::Series;
use super::sockets::DataSocket;
use super::worker::Outcome;
use super::{EndResult, Role, reading};
use longhaul_model::report::v1::Caveat;
use longhaul_model::report::v1::observation::{Core, Sample, StreamEnd};
use longhaul_sys::{sockopt, tcp_info};
use std::sync::PoisonError;

/// Assembles the results of this end, and prepares the sockets for closing.
pub(super) fn collect(
    shared: &Shared,
    series: Series,
    cores: Vec<Core>,
    mut caveats: Vec<Caveat>,
) -> EndResult {
    let parts = shared.streams.iter().zip(series.into_streams());
    let mut streams = Vec::with_capacity(shared.streams.len());
    for (stream, samples) in parts {
        let mut outcome = stream
            .outcome
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        caveats.append(&mut outcome.caveats);
        streams.push(stream_end(shared, stream, &outcome, samples));
        if shared.spec.role == Role::Sender && !shared.stop.drains() && is_tcp(stream) {
            // If this fails, closing sends the rest, which only takes longer.
            let _ = sockopt::set_abort_on_close(&stream.socket);
        }
    }
    let baseline = shared
        .take_baseline()
        .unwrap_or_else(|| Baseline::take(shared.interface.as_deref()));
    EndResult {
        end: end::describe(shared, &baseline, cores),
        streams,
        caveats,
    }
}

fn stream_end(
    shared: &Shared,
    stream: &StreamState,
    outcome: &Outcome,
    samples: Vec<Sample>,
) -> StreamEnd {
    let (local, peer) = stream.addresses;
    let plan = &shared.spec.plan;
    let asked_send = plan.send_buffer_bytes.or(shared
        .choice
        .send_buffer_bytes
        .filter(|_| is_tcp(stream))
        .map(|bytes| bytes as u64));
    let (send_buffer, receive_buffer) =
        reading::buffers(&stream.socket, asked_send, plan.receive_buffer_bytes);
    let info = tcp_info::read(&stream.socket).ok();
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
        send_buffer,
        receive_buffer,
        mss_bytes: info.as_ref().map(|info| info.send_mss_bytes),
        congestion_control: sockopt::congestion_control(&stream.socket).ok(),
        options: info.as_ref().map(reading::options),
        udp: outcome.udp,
        error: outcome.error.clone(),
        samples,
    }
}

fn is_tcp(stream: &StreamState) -> bool {
    matches!(stream.socket, DataSocket::Tcp(_))
}
