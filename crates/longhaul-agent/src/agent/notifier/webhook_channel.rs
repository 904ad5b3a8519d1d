//! Sends a POST request with the event and its text as JSON.

use super::ATTEMPT_TIMEOUT;
use crate::agent::export::format_error_chain;
use crate::secret_file;
use crate::watch::watch_file::WebhookConfig;
use reqwest::redirect::Policy;
use std::path::Path;

pub async fn post_notice(to: &WebhookConfig, folder: &Path, body: &str) -> Result<(), String> {
    // Fails if the process has installed a provider before, which does not matter.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let web = reqwest::Client::builder()
        .timeout(ATTEMPT_TIMEOUT)
        // The token must not reach another address than the configured one.
        .redirect(Policy::none())
        .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| format_error_chain(&error))?;
    let mut request =
        web.post(&to.url).header("content-type", "application/json").body(body.to_owned());
    if let Some(token) = &to.token_file {
        let path = folder.join(token);
        let secret = secret_file::read_secret(&path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        request = request.bearer_auth(secret);
    }
    // The URL may contain a secret, so errors omit it.
    let answer = request.send().await.map_err(|error| format_error_chain(&error.without_url()))?;
    let status = answer.status();
    if status.is_success() { Ok(()) } else { Err(format!("the server answered {status}")) }
}
