//! Sends runs to an archive of perfSONAR, as pScheduler's archiver `http` does.

use super::batch_wire::BatchResponse;
use super::perfsonar_document::{build_documents, build_failed_documents};
use super::{DeliveryError, format_error_chain};
use crate::http_client::{http_client_builder, read_body};
use crate::secret_file;
use crate::watch::watch_file::{ArchiveMethod, PerfsonarArchiveSection, WatchFile};
use longhaul_model::sanitize::sanitize_line;
use longhaul_store::history_store::IncomingRun;
use longhaul_store::sqlite::outbox::{OutboxEntry, OutboxItem, RefusedEntry};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, StatusCode};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// The timeout of a request, pScheduler's default.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size of an answer, of which the beginning is shown.
const MAX_ANSWER_BYTES: u64 = 64 << 10;
const MAX_REASON_CHARS: usize = 200;

/// A client for one archive.
#[derive(Debug, Clone)]
pub struct PerfsonarArchive {
    http: Client,
    url: String,
    method: Method,
    headers: HeaderMap,
}

impl PerfsonarArchive {
    /// Creates a client from `[[perfsonar_archive]]`; relative paths refer to `folder`.
    ///
    /// # Errors
    /// The secret cannot be read, or TLS cannot be set up.
    pub fn new(
        section: &PerfsonarArchiveSection,
        folder: &Path,
    ) -> Result<PerfsonarArchive, String> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in &section.headers {
            let name = HeaderName::try_from(name).map_err(|error| error.to_string())?;
            headers.insert(name, read_header(value)?);
        }
        if let Some(file) = &section.authorization_file {
            let path = folder.join(file);
            let secret = secret_file::read_secret(&path)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            headers.insert(AUTHORIZATION, read_header(&secret)?);
        }
        let http = http_client_builder(REQUEST_TIMEOUT)
            .tls_danger_accept_invalid_certs(!section.verify_certificate)
            .build()
            .map_err(|error| format_error_chain(&error))?;
        let method = match section.method {
            ArchiveMethod::Post => Method::POST,
            ArchiveMethod::Put => Method::PUT,
        };
        Ok(PerfsonarArchive { http, url: section.url.clone(), method, headers })
    }

    /// Sends the results and the failed runs among these items, one document after the other.
    pub async fn send_items(
        &self,
        file: &WatchFile,
        items: &[OutboxEntry],
    ) -> Result<BatchResponse, DeliveryError> {
        let mut answer = BatchResponse::default();
        for OutboxEntry { place, item } in items {
            let documents = match item {
                OutboxItem::Run(run) => match IncomingRun::parse_json(run.report.clone(), 0) {
                    Ok((_, report)) => {
                        let near = run.near.as_ref().unwrap_or(&file.agent.name);
                        build_documents(file, near, &run.pairs, &report)
                    }
                    Err(error) => {
                        let why = format_error_chain(&error);
                        answer.refused.push(RefusedEntry { place: *place, why });
                        continue;
                    }
                },
                OutboxItem::Planned(planned) => build_failed_documents(file, planned),
                OutboxItem::Event(_) => continue,
            };
            for document in documents {
                self.send_document(&document).await?;
            }
        }
        Ok(answer)
    }

    async fn send_document(&self, document: &Value) -> Result<(), DeliveryError> {
        let request = self.http.request(self.method.clone(), &self.url);
        let request = request.headers(self.headers.clone()).body(document.to_string());
        let answer = request
            .send()
            .await
            .map_err(|error| DeliveryError::Temporary(format_error_chain(&error.without_url())))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let body = read_body(answer, MAX_ANSWER_BYTES).await.unwrap_or_default();
        let text = sanitize_line(&String::from_utf8_lossy(&body), MAX_REASON_CHARS);
        let why = format!("it answered {status}{}{text}", if text.is_empty() { "" } else { ": " });
        Err(match status {
            StatusCode::BAD_REQUEST
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::UNPROCESSABLE_ENTITY => DeliveryError::Rejected(why),
            _ => DeliveryError::Temporary(why),
        })
    }
}

/// Returns a header value that is not shown in errors.
fn read_header(text: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::try_from(text).map_err(|error| error.to_string())?;
    value.set_sensitive(true);
    Ok(value)
}
