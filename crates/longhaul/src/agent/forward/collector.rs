//! Sends batches to a collector: POST over TLS with a token, gzip and a timeout.

use super::Trouble;
use super::wire::{self, Answer};
use crate::watch::file::Collector;
use flate2::Compression;
use flate2::write::GzEncoder;
use longhaul_store::sqlite::outbox::ToSend;
use reqwest::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use reqwest::{Certificate, Response, StatusCode, Url};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const PATH: &str = "/api/v1/batches";
const CONNECT: Duration = Duration::from_secs(15);
/// The timeout from the first byte of the batch to the last byte of the response, long enough for
/// slow links.
const WHOLE: Duration = Duration::from_secs(180);
/// The response lists every rejected item, so it may be long.
const ANSWER_BYTES_MAX: usize = 2 << 20;
const SECRET_BYTES_MAX: u64 = 4096;
const CA_BYTES_MAX: u64 = 4 << 20;

/// A client for one collector.
#[derive(Debug, Clone)]
pub struct Way {
    http: reqwest::Client,
    url: Url,
    token: Option<HeaderValue>,
}

impl Way {
    /// Creates a client from `[collector]`; relative paths refer to `folder`.
    pub fn to(section: &Collector, folder: &Path) -> Result<Way, String> {
        // Fails if the process has installed a provider before, which is always the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let token = section
            .token_file
            .as_ref()
            .map(|file| token(&folder.join(file)))
            .transpose()?;
        let mut http = reqwest::Client::builder()
            .https_only(true)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .timeout(WHOLE)
            .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")));
        if let Some(file) = &section.ca_file {
            http = http.tls_certs_only(certificates(&folder.join(file))?);
        }
        let address = format!("{}{PATH}", section.url.trim_end_matches('/'));
        Ok(Way {
            http: http
                .build()
                .map_err(|error| format!("TLS cannot be set up: {}", super::chain(&error)))?,
            url: Url::parse(&address).map_err(|error| format!("{address}: {error}"))?,
            token,
        })
    }

    /// Returns host and port for messages.
    pub fn host(&self) -> String {
        let port = self
            .url
            .port()
            .map_or_else(String::new, |port| format!(":{port}"));
        format!("{}{port}", self.url.host_str().unwrap_or_default())
    }

    pub async fn deliver(
        &self,
        agent: &str,
        sent_us: i64,
        items: Arc<Vec<ToSend>>,
    ) -> Result<Answer, Trouble> {
        let agent = agent.to_owned();
        let packed =
            tokio::task::spawn_blocking(move || pack(&wire::batch(&agent, sent_us, &items)));
        let body = packed
            .await
            .map_err(|error| Trouble::Later(error.to_string()))?
            .map_err(|error| Trouble::Later(error.to_string()))?;
        let mut request = self
            .http
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(CONTENT_ENCODING, "gzip")
            .body(body);
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token.clone());
        }
        let response = request
            .send()
            .await
            .map_err(|error| Trouble::Later(super::chain(&error.without_url())))?;
        self.answer(response).await
    }

    async fn answer(&self, response: Response) -> Result<Answer, Trouble> {
        let status = response.status();
        let body = whole(response).await.map_err(Trouble::Later)?;
        if status == StatusCode::OK {
            return Answer::read(&body)
                .map_err(|why| Trouble::Later(format!("its answer cannot be understood: {why}")));
        }
        let (ours, text) = told(&body);
        let why = format!("it answered {status}: {text}");
        Err(match status {
            // Only longhaul itself rejects the batch for good. The same status from something in
            // between, such as a misconfigured proxy, may be temporary.
            StatusCode::BAD_REQUEST if ours => Trouble::Refused(why),
            StatusCode::PAYLOAD_TOO_LARGE => Trouble::Refused(why),
            _ => Trouble::Later(why),
        })
    }
}

fn pack(text: &str) -> std::io::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(text.as_bytes())?;
    packer.finish()
}

async fn whole(mut response: Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(piece) = response
        .chunk()
        .await
        .map_err(|error| super::chain(&error.without_url()))?
    {
        if body.len() + piece.len() > ANSWER_BYTES_MAX {
            return Err(format!(
                "its answer is longer than {ANSWER_BYTES_MAX} bytes"
            ));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

/// Returns whether longhaul sent the error response, and its text.
fn told(body: &[u8]) -> (bool, String) {
    let value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let error = &value["error"];
    let text = match (error["text"].as_str(), error["hint"].as_str()) {
        (Some(text), Some(hint)) => format!("{text}; {hint}"),
        (Some(text), None) => text.to_owned(),
        (None, _) => String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned(),
    };
    (error["code"].is_string(), wire::bounded(&text))
}

/// Returns the first line of the token file as an `Authorization` header value.
fn token(file: &Path) -> Result<HeaderValue, String> {
    let text = read(file, SECRET_BYTES_MAX)?;
    let line = text.lines().next().unwrap_or_default().trim();
    let mut value = HeaderValue::try_from(format!("Bearer {line}"))
        .map_err(|_| format!("{}: its first line is no token", file.display()))?;
    value.set_sensitive(true);
    Ok(value)
}

fn certificates(file: &Path) -> Result<Vec<Certificate>, String> {
    let text = read(file, CA_BYTES_MAX)?;
    let found = Certificate::from_pem_bundle(text.as_bytes());
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(format!("{}: there is no certificate in it", file.display())),
        Err(error) => Err(format!("{}: {}", file.display(), super::chain(&error))),
    }
}

fn read(file: &Path, bytes_max: u64) -> Result<String, String> {
    let shown = file.display();
    let mut text = String::new();
    let opened = File::open(file).map_err(|error| format!("{shown}: {error}"))?;
    opened
        .take(bytes_max)
        .read_to_string(&mut text)
        .map_err(|error| format!("{shown}: {error}"))?;
    Ok(text)
}
