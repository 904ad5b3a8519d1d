//! ndt7 clients on a measurement server's port, with TLS and without.
//!
//! A client without TLS begins with the path of a subtest. A ClientHello belongs to ndt7 if it does
//! not name the server `longhaul`, as clients of longhaul do. The clients have no token, so the limits
//! of anonymous clients apply.

use crate::ndt7_connection::open_server;
use crate::ndt7_messages::SubtestKind;
use crate::subtest_transfer::{SubtestTransfer, TransferLimits, TransferOutcome};
use longhaul_probe::measurement_server::{
    AnonymousLimits, ConnectionKind, NewConnection, ProtocolHandler, ServeEvent, ServerContext,
};
use longhaul_probe::secure::{SERVER_NAME, read_hello_names};
use rustls::ServerConfig;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const REQUEST_START: &[u8] = b"GET /ndt/v7/";
/// The first byte of a TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;

/// Serves ndt7 clients on the port of a measurement server.
pub struct Ndt7Handler {
    tls: Arc<ServerConfig>,
}

impl fmt::Debug for Ndt7Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ndt7Handler")
    }
}

impl Ndt7Handler {
    /// Creates a handler with this certificate for clients with TLS.
    pub fn new(tls: Arc<ServerConfig>) -> Ndt7Handler {
        Ndt7Handler { tls }
    }

    fn serve_subtest<'a>(
        &'a self,
        server: &'a ServerContext<'a>,
        connection: NewConnection<'a>,
    ) -> Result<(), String> {
        let NewConnection { stream, peer, deadline, place, .. } = connection;
        let refused = "clients of ndt7 have no token, which this server wants";
        let anonymous = server.options.anonymous.ok_or(refused)?;
        let unusable = |error: std::io::Error| format!("cannot use its socket: {error}");
        let mut first = [0];
        stream.peek(&mut first).map_err(unusable)?;
        let tls = (first[0] == TLS_HANDSHAKE).then_some(&self.tls);
        let mut admitted = None;
        let mut admit = |kind: SubtestKind| {
            let slot = server.take_slot(peer.ip(), Some(anonymous.concurrent))?;
            admitted = Some((kind, slot));
            Ok(())
        };
        let tcp = stream.try_clone().map_err(unusable)?;
        let opened = open_server(tcp, tls, &mut admit, deadline)?;
        drop(place);
        let (kind, _slot) = admitted.ok_or("no subtest was requested")?;
        server.log(ServeEvent::SessionOpened {
            peer,
            host: "ndt7 client".to_owned(),
            anonymous: true,
            what: format!("ndt7 {kind}"),
        });
        let stop = AtomicBool::new(false);
        let transfer = SubtestTransfer::new(opened, kind, true, limit_transfer(&anonymous), &stop);
        let outcome = transfer.run(&mut |_| stop.store(server.is_stopping(), Ordering::Relaxed));
        let TransferOutcome { bytes, elapsed, failure, .. } = outcome;
        let reason = failure.unwrap_or_else(|| "the test is over".to_owned());
        server.log(ServeEvent::SessionClosed { peer, reason, elapsed, bytes, opened: true });
        Ok(())
    }
}

fn limit_transfer(anonymous: &AnonymousLimits) -> TransferLimits {
    let default = TransferLimits::default();
    let most = Duration::from_secs(anonymous.seconds);
    TransferLimits {
        send_time: default.send_time.min(most),
        end_time: default.end_time.min(most + Duration::from_secs(3)),
        bytes: anonymous.bytes,
        rate_bps: anonymous.rate_bps,
    }
}

impl ProtocolHandler for Ndt7Handler {
    fn recognize_connection(&self, first_bytes: &[u8], _peer: IpAddr) -> ConnectionKind {
        if first_bytes.first() == Some(&TLS_HANDSHAKE) {
            let names = read_hello_names(first_bytes);
            let is_foreign = names.is_some_and(|names| names.server != SERVER_NAME);
            return if is_foreign { ConnectionKind::Session } else { ConnectionKind::Unknown };
        }
        if first_bytes.starts_with(REQUEST_START) {
            ConnectionKind::Session
        } else if REQUEST_START.starts_with(first_bytes) {
            ConnectionKind::Incomplete
        } else {
            ConnectionKind::Unknown
        }
    }

    fn handle_connection<'a>(
        &'a self,
        server: &'a ServerContext<'a>,
        connection: NewConnection<'a>,
    ) {
        let peer = connection.peer;
        if let Err(why) = self.serve_subtest(server, connection) {
            server.log(ServeEvent::Dismissed { peer, why });
        }
    }
}
