//! A POST with the event and its text as JSON.

use super::{DEADLINE, Notice, secret};
use crate::watch::file::Webhook;
use reqwest::redirect::Policy;
use std::error::Error;
use std::path::Path;

pub async fn tell(to: &Webhook, folder: &Path, notice: &Notice) -> Result<(), String> {
    // Once for the process; whoever comes second changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let web = reqwest::Client::builder()
        .timeout(DEADLINE)
        // A token is for the address that the file names.
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
    // The address may hold a secret in its path, so errors are told without it.
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
