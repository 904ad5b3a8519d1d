//! A subtest against an ndt7 server.

use crate::ndt7_connection::{SUBPROTOCOL, open_client};
use crate::ndt7_messages::{AppCount, Ndt7Result, SubtestKind};
use crate::subtest_transfer::{SubtestTransfer, TransferLimits};
use jiff::Timestamp;
use longhaul_probe::probe_error::ProbeError;
use longhaul_probe::secure::client_config;
use longhaul_probe::throughput::{TargetConnection, TargetHost, connect_target};
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use tungstenite::client::ClientRequestBuilder;
use tungstenite::http::Uri;

/// The parameters by which a client names itself, to servers and to the Locate API.
pub const CLIENT_QUERY: &str =
    concat!("client_name=longhaul&client_version=", env!("CARGO_PKG_VERSION"));

/// A finished subtest.
#[derive(Debug)]
pub struct SubtestRun {
    pub result: Ndt7Result,
    /// The reason, if the connection ended without a closing handshake.
    pub failure: Option<String>,
}

/// A subtest to run.
#[derive(Debug, Clone, Copy)]
pub struct SubtestRequest<'a> {
    pub kind: SubtestKind,
    pub uses_tls: bool,
    /// The query of the URL, such as an access token. Empty: none.
    pub query: &'a str,
}

/// Runs a subtest. The certificate of the server is not verified: the data are random.
///
/// # Errors
/// No connection to the server, or it does not speak ndt7.
pub fn run_subtest(
    target: &TargetHost,
    wanted: SubtestRequest<'_>,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(AppCount),
) -> Result<SubtestRun, ProbeError> {
    let kind = wanted.kind;
    let TargetConnection { stream, address, target } = connect_target(target)?;
    let failed = |why: String| ProbeError::OtherProtocol {
        address,
        what: format!("no ndt7 {kind}: {why}"),
        advice: Some(
            "start `longhaul serve --ndt7` there, or name the port of another ndt7 server; use \
             `--plain` if it has no TLS",
        ),
        is_lost: false,
    };
    let client = stream.local_addr().map_err(|error| failed(error.to_string()))?;
    let tls = wanted.uses_tls.then(|| start_tls(&target.host)).transpose().map_err(failed)?;
    let request = build_request(&target, wanted).map_err(failed)?;
    let deadline = Instant::now() + target.connect_timeout;
    let connection = open_client(stream, tls, request, deadline).map_err(failed)?;
    let start = Timestamp::now().to_string();
    let limits = TransferLimits::default();
    let outcome = SubtestTransfer::new(connection, kind, false, limits, stop).run(progress);
    let server: SocketAddr = longhaul_probe::canonical_address(address);
    let result = Ndt7Result::new(kind, longhaul_probe::canonical_address(client), server, start);
    let end = Timestamp::now().to_string();
    let result = result.with_measurements(outcome.own, outcome.peer, end);
    Ok(SubtestRun { result, failure: outcome.failure })
}

fn start_tls(host: &str) -> Result<ClientConnection, String> {
    let config = client_config(None).map_err(|error| error.to_string())?;
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    ClientConnection::new(config, name).map_err(|error| error.to_string())
}

fn build_request(
    target: &TargetHost,
    wanted: SubtestRequest<'_>,
) -> Result<ClientRequestBuilder, String> {
    let scheme = if wanted.uses_tls { "wss" } else { "ws" };
    // An address of IPv6 has brackets, and no interface.
    let host = target.host.split('%').next().unwrap_or_default();
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let version = env!("CARGO_PKG_VERSION");
    let path = wanted.kind.url_path();
    let port = target.port;
    let and = if wanted.query.is_empty() { "" } else { "&" };
    let query = format!("{}{and}{CLIENT_QUERY}", wanted.query);
    let uri = format!("{scheme}://{host}:{port}{path}?{query}");
    let uri: Uri = uri.parse().map_err(|error| format!("{host}: {error}"))?;
    let agent = format!("longhaul/{version}");
    Ok(ClientRequestBuilder::new(uri)
        .with_sub_protocol(SUBPROTOCOL)
        .with_header("User-Agent", agent))
}
