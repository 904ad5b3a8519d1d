//! Sends a POST request with the event and its text as JSON.

use super::{DEADLINE, Notice, secret};
use crate::watch::file::Webhook;
use reqwest::redirect::Policy;
use std::error::Error;
use std::path::Path;

pub async fn tell(to: &Webhook, folder: &Path, notice: &Notice) -> Result<(), String> {
    // Fails if the process has installed a provider before, which does not matter.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let web = reqwest::Client::builder()
        .timeout(DEADLINE)
        // The token must not reach another address than the configured one.
        .redirect(Policy::none())
        .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| chain(&error))?;
    let mut request = web
        .post(&to.url)
        .header("content-type", "application/json")
        .body(notice.json());
    if let Some(token) = &to.token_file {
        request = request.bearer_auth(secret(folder, token)?);
    }
    // The URL may contain a secret, so errors omit it.
    let answer = request
        .send()
        .await
        .map_err(|error| chain(&error.without_url()))?;
    let status = answer.status();
    if status.is_success() {
        Ok(())
    } else {
        Err(format!("it answered {status}"))
    }
}

fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
