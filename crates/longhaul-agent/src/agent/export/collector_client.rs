//! Sends batches to a collector: POST over TLS with a token, gzip and a timeout.

use super::DeliveryError;
use super::batch_wire::{self, BatchResponse};
use crate::secret_file;
use crate::watch::watch_file::CollectorSection;
use flate2::Compression;
use flate2::write::GzEncoder;
use longhaul_store::sqlite::outbox::OutboxEntry;
use reqwest::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use reqwest::{Certificate, Response, StatusCode, Url};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

const BATCHES_PATH: &str = "/api/v1/batches";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// The timeout from the first byte of the batch to the last byte of the response, long enough for
/// slow links.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(180);
/// The response lists every rejected item, so it may be long.
const MAX_RESPONSE_BYTES: usize = 2 << 20;

/// A client for one collector.
#[derive(Debug, Clone)]
pub struct CollectorClient {
    http: reqwest::Client,
    url: Url,
    token: Option<HeaderValue>,
}

impl CollectorClient {
    /// Creates a client from `[collector]`; relative paths refer to `folder`.
    pub fn new(section: &CollectorSection, folder: &Path) -> Result<CollectorClient, String> {
        // Fails if the process has installed a provider before, which is always the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let token =
            section.token_file.as_ref().map(|file| read_token(&folder.join(file))).transpose()?;
        let mut http = reqwest::Client::builder()
            .https_only(true)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(REQUEST_TIMEOUT)
            .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")));
        if let Some(file) = &section.ca_file {
            http = http.tls_certs_only(read_certificates(&folder.join(file))?);
        }
        let address = format!("{}{BATCHES_PATH}", section.url.trim_end_matches('/'));
        Ok(CollectorClient {
            http: http.build().map_err(|error| {
                format!("cannot set up TLS: {}", super::format_error_chain(&error))
            })?,
            url: Url::parse(&address).map_err(|error| format!("{address}: {error}"))?,
            token,
        })
    }

    pub async fn send_batch(
        &self,
        agent: &str,
        sent_us: i64,
        items: &[OutboxEntry],
    ) -> Result<BatchResponse, DeliveryError> {
        let body = compress_batch(&batch_wire::encode_batch(agent, sent_us, items))
            .map_err(|error| DeliveryError::Temporary(error.to_string()))?;
        let mut request = self
            .http
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(CONTENT_ENCODING, "gzip")
            .body(body);
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token.clone());
        }
        let response = request.send().await.map_err(|error| {
            DeliveryError::Temporary(super::format_error_chain(&error.without_url()))
        })?;
        self.read_response(response).await
    }

    async fn read_response(&self, response: Response) -> Result<BatchResponse, DeliveryError> {
        let status = response.status();
        let body = read_body(response).await.map_err(DeliveryError::Temporary)?;
        if status == StatusCode::OK {
            return BatchResponse::parse(&body)
                .map_err(|why| DeliveryError::Temporary(format!("cannot read its answer: {why}")));
        }
        let (ours, text) = parse_error_response(&body);
        let why = format!("it answered {status}: {text}");
        Err(match status {
            // Only longhaul itself rejects the batch for good. The same status from something in
            // between, such as a misconfigured proxy, may be temporary.
            StatusCode::BAD_REQUEST if ours => DeliveryError::Rejected(why),
            StatusCode::PAYLOAD_TOO_LARGE => DeliveryError::Rejected(why),
            _ => DeliveryError::Temporary(why),
        })
    }
}

fn compress_batch(text: &str) -> std::io::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(text.as_bytes())?;
    packer.finish()
}

async fn read_body(mut response: Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(piece) =
        response.chunk().await.map_err(|error| super::format_error_chain(&error.without_url()))?
    {
        if body.len() + piece.len() > MAX_RESPONSE_BYTES {
            return Err(format!("its answer is longer than {MAX_RESPONSE_BYTES} bytes"));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

/// Returns whether longhaul sent the error response, and its text.
fn parse_error_response(body: &[u8]) -> (bool, String) {
    let value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let error = &value["error"];
    let text = match (error["text"].as_str(), error["hint"].as_str()) {
        (Some(text), Some(hint)) => format!("{text}; {hint}"),
        (Some(text), None) => text.to_owned(),
        (None, _) => String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned(),
    };
    (error["code"].is_string(), batch_wire::sanitize_reason(&text))
}

/// Returns the first line of the token file as an `Authorization` header value.
fn read_token(file: &Path) -> Result<HeaderValue, String> {
    let line =
        secret_file::read_secret(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut value = HeaderValue::try_from(format!("Bearer {line}"))
        .map_err(|_| format!("{}: the first line is not a valid token", file.display()))?;
    value.set_sensitive(true);
    Ok(value)
}

fn read_certificates(file: &Path) -> Result<Vec<Certificate>, String> {
    let text = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    match Certificate::from_pem_bundle(&text) {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(format!("{}: it contains no certificate", file.display())),
        Err(error) => Err(format!("{}: {}", file.display(), super::format_error_chain(&error))),
    }
}
