//! TLS for page and API, if the watch file names a certificate and its key.

use crate::agent::shared_state::SharedState;
use crate::watch::watch_file::WatchFile;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The handshake timeout.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The TLS configuration of new connections.
pub struct TlsAcceptorCache {
    state: Arc<SharedState>,
    cache: Mutex<(Arc<WatchFile>, Option<TlsAcceptor>)>,
}

impl TlsAcceptorCache {
    /// Fails if the certificate or key is unusable.
    pub fn new(state: Arc<SharedState>) -> io::Result<TlsAcceptorCache> {
        let file = state.file();
        let acceptor = build_acceptor(&file, &state.folder)?;
        Ok(TlsAcceptorCache { cache: Mutex::new((file, acceptor)), state })
    }

    /// Returns the acceptor of the current watch file. A reload reads certificate and key again; if
    /// that fails, the previous ones stay in use.
    pub fn current_acceptor(&self) -> Option<TlsAcceptor> {
        let file = self.state.file();
        let mut held = self.cache.lock();
        if !Arc::ptr_eq(&held.0, &file) {
            if let Ok(acceptor) = build_acceptor(&file, &self.state.folder) {
                held.1 = acceptor;
            }
            held.0 = file;
        }
        held.1.clone()
    }
}

/// Returns a warning if other hosts reach the agent without TLS.
pub fn warn_without_tls(file: &WatchFile) -> Option<String> {
    let listen = file.agent.listen;
    (!listen.ip().is_loopback() && file.api.tls_files().is_none()).then(|| {
        format!(
            "page and API on {listen} use plain HTTP, which exposes tokens and results on the \
             network; set certificate and key in [api], or put a TLS proxy in front"
        )
    })
}

/// Performs the handshake.
pub async fn accept_tls(
    acceptor: TlsAcceptor,
    stream: TcpStream,
) -> io::Result<TlsStream<TcpStream>> {
    timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream))
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

/// Returns the acceptor with certificate and key, if the file names them.
pub fn build_acceptor(file: &WatchFile, folder: &Path) -> io::Result<Option<TlsAcceptor>> {
    let Some((certificate, key)) = file.api.tls_files() else {
        return Ok(None);
    };
    let (chain, key) = (folder.join(certificate), folder.join(key));
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&chain)
        .and_then(Iterator::collect)
        .map_err(|error| build_tls_error(&chain, "the certificates", &error))?;
    let private = PrivateKeyDer::from_pem_file(&key)
        .map_err(|error| build_tls_error(&key, "the key", &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(certificates, private)
        .map_err(|error| build_tls_error(&chain, "certificates that match the key", &error))?;
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

fn build_tls_error(file: &Path, what: &str, error: &dyn std::error::Error) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("cannot load {what} for [api] from {}: {error}", file.display()),
    )
}
