//! Access control: bearer tokens, and `Host` and `Origin` checks.
//!
//! Without a token the agent listens only on loopback (the watch file enforces this), and every
//! program on this host may read. Browsers on this host run untrusted code. Therefore the `Host`
//! header must name this agent, which prevents DNS rebinding, and requests that change something
//! must come from the page itself.
//!
//! With a token, every API request must carry it. The token file is read for each request.

use super::ApiState;
use super::api_error::ApiError;
use crate::secret_file::{self, SecretDigest, hash_secret};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, StatusCode};

impl ApiState {
    /// Checks whether the request may read.
    pub fn authorize_read(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let Some(path) = &self.state.file().api.token_file else {
            return self.check_host_header(headers);
        };
        let token = secret_file::read_secret(&self.state.folder.join(path)).map_err(|error| {
            let text = format!("cannot read {}: {error}", path.display());
            ApiError::unavailable("token_unreadable", text)
                .hint("correct the file that token_file in [api] names")
        })?;
        check_bearer_token(headers, &hash_secret(token.as_bytes()))
    }

    /// Checks whether a request that may read may also request runs.
    pub fn authorize_run_request(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let has_token = self.state.file().api.token_file.is_some();
        if !has_token && !self.own_address.ip().is_loopback() {
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
