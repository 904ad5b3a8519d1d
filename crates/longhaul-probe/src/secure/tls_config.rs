//! The TLS configuration of both roles.

use crate::probe_error::ServeError;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme};
use std::path::Path;
use std::sync::Arc;

/// The name of the server in the handshake of a client of longhaul, whatever host it is on.
pub const SERVER_NAME: &str = "longhaul";

/// The server's key and certificate, made at its start and discarded at its end.
#[derive(Debug, Clone)]
pub struct TlsIdentity(pub(super) Arc<ServerConfig>);

impl TlsIdentity {
    pub fn generate() -> Result<Self, ServeError> {
        let made = rcgen::generate_simple_self_signed(vec![SERVER_NAME.to_owned()])
            .map_err(|error| certificate_error(&error))?;
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())
            .map_err(|why| certificate_error(&why))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| certificate_error(&error))?
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .map_err(|error| certificate_error(&error))?;
        Ok(TlsIdentity(Arc::new(config)))
    }

    /// Reads the certificate and the key of two PEM files, for another protocol with TLS.
    ///
    /// # Errors
    /// A text names the file that cannot be read, or says that both do not match.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, String> {
        let unreadable = |file: &Path, error: pem::Error| format!("{}: {error}", file.display());
        let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
        let chain: Vec<_> = chain.map_err(|error| unreadable(certificate, error))?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, error))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|it| it.with_no_client_auth().with_single_cert(chain, private))
            .map_err(|error| format!("{}: {error}", certificate.display()))?;
        Ok(TlsIdentity(Arc::new(config)))
    }

    /// Returns the configuration, for another protocol with TLS.
    pub fn server_config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0)
    }
}

fn certificate_error(error: &dyn std::fmt::Display) -> ServeError {
    ServeError::Certificate { why: error.to_string() }
}

/// Returns the client's configuration, which accepts any certificate (see the parent module), with
/// the ticket of a client that has the token.
pub fn client_config(ticket: Option<Vec<u8>>) -> Result<Arc<ClientConfig>, Error> {
    let provider = Arc::new(ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    config.alpn_protocols.extend(ticket);
    Ok(Arc::new(config))
}

/// Accepts every certificate: the token proves identity and is bound to the connection by the
/// exporter. Signatures are still verified, since the key exchange depends on them.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
