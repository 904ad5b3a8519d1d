//! Access control: bearer tokens, and `Host` and `Origin` checks.
//!
//! Without a token the agent listens only on loopback (the watch file enforces this), and every
//! program on this host may read. Browsers on this host run untrusted code. Therefore the `Host`
//! header must name this agent, which prevents DNS rebinding, and requests that change something
//! must come from the page itself.
//!
//! With a token, every API request must carry it. Only its SHA-256 is kept.

use super::api_error::ApiError;
use crate::agent::shared_state::SharedState;
use crate::secret_file::{self, SecretDigest, hash_secret};
use crate::watch::watch_file::WatchFile;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;

/// The access policy of the current watch file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum AccessPolicy {
    Loopback,
    Token(SecretDigest),
    /// The token file is unreadable, so access is denied to all.
    Closed(String),
}

pub struct AccessControl {
    state: Arc<SharedState>,
    own_address: SocketAddr,
    cache: Mutex<(Arc<WatchFile>, AccessPolicy)>,
}

impl AccessControl {
    pub fn new(state: Arc<SharedState>, own: SocketAddr) -> AccessControl {
        let file = state.file();
        let access = load_policy(&state, &file);
        AccessControl { cache: Mutex::new((file, access)), state, own_address: own }
    }

    /// Returns the policy of the current watch file, and updates it after a reload.
    fn current_policy(&self) -> AccessPolicy {
        let file = self.state.file();
        let mut held = self.cache.lock();
        if !Arc::ptr_eq(&held.0, &file) {
            *held = (Arc::clone(&file), load_policy(&self.state, &file));
        }
        held.1.clone()
    }

    /// Checks whether the request may read.
    pub fn authorize_read(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        match self.current_policy() {
            AccessPolicy::Loopback => self.check_host_header(headers),
            AccessPolicy::Token(kept) => check_bearer_token(headers, &kept),
            AccessPolicy::Closed(why) => Err(ApiError::unavailable("token_unreadable", why)
                .hint("correct the file that token_file in [api] names, then reload the agent")),
        }
    }

    /// Checks whether a request that may read may also request runs.
    pub fn authorize_run_request(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        if self.current_policy() == AccessPolicy::Loopback && !self.own_address.ip().is_loopback() {
            return Err(ApiError::new(
                StatusCode::FORBIDDEN,
                "read_only",
                "runs can be requested only with a token if other hosts can reach the agent",
            )
            .hint("set token_file in [api]"));
        }
        check_same_origin(headers)
    }

    /// Checks that `Host` is an address or name of this agent.
    fn check_host_header(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let called = headers.get(HOST).and_then(|host| host.to_str().ok());
        let file = self.state.file();
        let own = file.own_host();
        let known = |name: &str| {
            name.eq_ignore_ascii_case("localhost")
                || name.eq_ignore_ascii_case(&own.name)
                || name.eq_ignore_ascii_case(&own.address)
                || name.parse() == Ok(self.own_address.ip())
        };
        let port = self.own_address.port();
        if called
            .and_then(|host| split_host_port(host, port))
            .is_some_and(|(name, at)| at == port && known(name))
        {
            return Ok(());
        }
        Err(ApiError::new(
            StatusCode::MISDIRECTED_REQUEST,
            "foreign_host",
            format!("the Host header {:?} does not name this agent", called.unwrap_or("")),
        )
        .hint(format!(
            "use http://{}/ ; for other names, such as behind a proxy, set token_file in [api]",
            self.own_address
        )))
    }
}

/// Splits `Host` into name and port; the port may be absent.
fn split_host_port(host: &str, own_port: u16) -> Option<(&str, u16)> {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()?),
        _ => (host, 80),
    };
    // Nothing is known here about a proxy on port 80 or 443.
    let port = if own_port == 443 && port == 80 { 443 } else { port };
    let name = name.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(name);
    Some((name, port))
}

/// Checks the origin of the request. Browsers send it; other programs do not.
fn check_same_origin(headers: &HeaderMap) -> Result<(), ApiError> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let site = text("sec-fetch-site");
    let same_site = site.is_none_or(|site| matches!(site, "same-origin" | "none"));
    let host = text(HOST.as_str()).unwrap_or("");
    let same_origin = text(ORIGIN.as_str()).is_none_or(|origin| {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        authority.is_some_and(|it| it.eq_ignore_ascii_case(host))
    });
    if same_site && same_origin {
        return Ok(());
    }
    Err(ApiError::new(
        StatusCode::FORBIDDEN,
        "foreign_origin",
        "another site cannot request runs in your name",
    )
    .hint("send the request from the agent's own page, or from a program"))
}

fn check_bearer_token(headers: &HeaderMap, kept: &SecretDigest) -> Result<(), ApiError> {
    let refused = |text: &str| {
        Err(ApiError::new(StatusCode::UNAUTHORIZED, "no_token", text)
            .hint("send `Authorization: Bearer TOKEN`; the agent's operator has the token"))
    };
    let Some(sent) = headers.get(AUTHORIZATION) else {
        return refused("this agent requires a token");
    };
    let sent = sent.as_bytes();
    let scheme = sent.get(..7).is_some_and(|it| it.eq_ignore_ascii_case(b"bearer "));
    if scheme && equal_in_constant_time(&hash_secret(sent[7..].trim_ascii()), kept) {
        return Ok(());
    }
    refused("this token is not valid for this agent")
}

/// Compares two hashes in constant time.
fn equal_in_constant_time(one: &SecretDigest, other: &SecretDigest) -> bool {
    let differing = one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
    std::hint::black_box(differing) == 0
}

fn load_policy(state: &SharedState, file: &WatchFile) -> AccessPolicy {
    let Some(path) = &file.api.token_file else {
        return AccessPolicy::Loopback;
    };
    match secret_file::read_secret(&state.folder.join(path)) {
        Ok(token) => AccessPolicy::Token(hash_secret(token.as_bytes())),
        Err(error) => AccessPolicy::Closed(format!("cannot read {}: {error}", path.display())),
    }
}
