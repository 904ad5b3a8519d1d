//! Bulk TCP to any server that reads, with samples of the kernel's connection state.
//!
//! For servers that do not cooperate: only the bytes that their kernel acknowledges are known, not
//! what the program reads.

use crate::engine::is_socket_timeout;
use crate::engine::{self, TransferRole, payload_byte};
use crate::probe_error::ProbeError;
use crate::throughput::{TargetHost, initiator_party, resolve_target};
use longhaul_model::report::v1::RunParty;
use longhaul_model::report::v1::available::TcpSample;
use longhaul_model::report::v1::plan::ThroughputPlan;
use longhaul_sys::{sockopt, tcp_info};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Interval between two samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);
/// Size of one write.
const WRITE_BYTES: usize = 128 << 10;
/// Timeout of a blocking write, after which the sampler runs.
const WRITE_TIMEOUT: Duration = Duration::from_millis(5);

/// Parameters of a bulk run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BulkRequest {
    pub port: u16,
    pub max_time: Duration,
    /// Payload limit.
    pub max_bytes: u64,
    pub dscp: Option<u8>,
}

/// Result of a bulk run.
#[derive(Debug, Clone)]
pub struct BulkOutcome {
    pub address: SocketAddr,
    pub initiator: RunParty,
    /// Duration of the connect.
    pub connect_rtt: Option<Duration>,
    /// Acknowledged payload, with RTT and delivery rate.
    pub samples: Vec<TcpSample>,
    /// Reason for an early end.
    pub ended_early: Option<String>,
}

/// Sends to `asked.port` of the target until the time or byte limit, or until the server closes.
///
/// # Errors
/// The server accepts no connection, or this host's socket fails.
pub fn send_bulk(
    target: &TargetHost,
    asked: &BulkRequest,
    each: &mut dyn FnMut(&TcpSample),
) -> Result<BulkOutcome, ProbeError> {
    let there = TargetHost { port: asked.port, ..target.clone() };
    let address = resolve_target(&there)?;
    let plan = ThroughputPlan { dscp: asked.dscp, ..ThroughputPlan::default() };
    let socket = engine::open_tcp_socket(&plan, TransferRole::Sender, address, &there.bind)
        .map_err(|error| ProbeError::local(error.to_string(), error.source))?;
    let before = Instant::now();
    let stream = socket.connect(there.connect_timeout).map_err(|source| ProbeError::Connect {
        host: there.host.clone(),
        address,
        source,
    })?;
    let connect_rtt = before.elapsed();
    let unusable = |source: io::Error| {
        ProbeError::local(format!("cannot use the connection to {address}"), source)
    };
    sockopt::set_send_timeout(&stream, WRITE_TIMEOUT).map_err(unusable)?;
    // Close without waiting for unread or unsent data.
    sockopt::set_abort_on_close(&stream).map_err(unusable)?;
    let mut samples = Vec::new();
    let ended_early = write_and_sample(&stream, asked, &mut |sample| {
        each(&sample);
        samples.push(sample);
    });
    Ok(BulkOutcome {
        address,
        initiator: initiator_party(stream.local_addr().ok()),
        connect_rtt: Some(connect_rtt),
        samples,
        ended_early,
    })
}

/// Writes and samples; returns the reason for an early end.
fn write_and_sample(
    stream: &TcpStream,
    asked: &BulkRequest,
    sampled: &mut dyn FnMut(TcpSample),
) -> Option<String> {
    let payload: Vec<u8> = (0..WRITE_BYTES as u64).map(payload_byte).collect();
    let begin = Instant::now();
    let mut next = begin;
    let mut left = asked.max_bytes;
    loop {
        let now = Instant::now();
        if now >= next {
            next = now + SAMPLE_INTERVAL;
            if let Ok(info) = tcp_info::read_tcp_info(stream) {
                sampled(to_tcp_sample(&info, now - begin));
            }
        }
        if now >= begin + asked.max_time {
            return None;
        }
        if left == 0 {
            return Some("the byte limit was reached".to_owned());
        }
        let count = left.min(payload.len() as u64) as usize;
        let mut writing: &TcpStream = stream;
        match writing.write(&payload[..count]) {
            Ok(written) => left -= written as u64,
            Err(error) if is_socket_timeout(&error) => {}
            Err(error) => return Some(describe_early_end(stream, &error)),
        }
    }
}

/// Services that reject bulk data often answer before they close; the answer's text is ignored.
fn describe_early_end(mut stream: &TcpStream, error: &io::Error) -> String {
    let mut said = [0; 1];
    let spoke = stream
        .set_read_timeout(Some(WRITE_TIMEOUT))
        .is_ok_and(|()| stream.read(&mut said).is_ok_and(|count| count > 0));
    let how = if spoke { "after an answer" } else { "without an answer" };
    format!("the peer closed the connection {how}: {error}")
}

fn to_tcp_sample(info: &tcp_info::TcpInfo, at: Duration) -> TcpSample {
    TcpSample {
        at_us: at.as_micros() as u64,
        bytes: info.reading.bytes_acked.unwrap_or(0),
        rtt_us: Some(info.reading.rtt_us),
        delivery_bps: info.reading.delivery_bps,
        application_limited: info.reading.app_limited.unwrap_or(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    fn target() -> TargetHost {
        TargetHost::new("127.0.0.1")
    }

    fn asked(port: u16) -> BulkRequest {
        BulkRequest {
            port,
            max_time: Duration::from_millis(300),
            max_bytes: 50_000_000,
            dscp: None,
        }
    }

    #[test]
    fn whatever_takes_bytes_is_sampled_until_bytes_or_time_are_over() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let port = listener.local_addr().expect("its address").port();
        let sink = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut bytes = vec![0; 1 << 16];
            while stream.read(&mut bytes).is_ok_and(|count| count > 0) {}
        });
        let outcome = send_bulk(&target(), &asked(port), &mut |_| {}).expect("bulk");
        sink.join().expect("the sink");
        let samples = &outcome.samples;
        assert!(!samples.is_empty());
        assert!(samples.is_sorted_by_key(|sample| sample.bytes));
        assert!(samples.iter().all(|sample| sample.bytes <= 50_000_001));
    }

    #[test]
    fn a_service_that_hangs_up_ends_it_early_with_a_reason() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let port = listener.local_addr().expect("its address").port();
        let rude = thread::spawn(move || drop(listener.accept().expect("a connection")));
        let outcome = send_bulk(&target(), &asked(port), &mut |_| {}).expect("bulk");
        rude.join().expect("the service");
        let why = outcome.ended_early.expect("it was rude");
        assert!(why.contains("closed"), "{why}");
    }

    #[test]
    fn a_port_where_nothing_listens_is_an_error() {
        let taken = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
        let port = taken.local_addr().expect("its address").port();
        let error = send_bulk(&target(), &asked(port), &mut |_| {}).expect_err("nothing listens");
        assert_eq!(error.exit_code(), 3);
    }
}
