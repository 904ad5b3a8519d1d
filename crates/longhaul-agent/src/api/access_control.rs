//! Access control: bearer tokens and their rights, the user of a request, and `Host` and `Origin`
//! checks.
//!
//! Without a token the agent listens only on loopback (the watch file enforces this), and every
//! program on this host may read. Browsers on this host run untrusted code. Therefore the `Host`
//! header must name this agent, which prevents DNS rebinding, and requests that change something
//! must come from the page itself.
//!
//! With a token, every API request must carry it. The token file is read for each request.

use super::ApiState;
use super::api_error::ApiError;
use crate::agent::export::format_error_chain;
use crate::secret_file::{self, SecretDigest, hash_secret};
use crate::token_store::{TokenRight, TokenStoreError};
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, StatusCode};
use longhaul_model::sanitize::sanitize_line;
use longhaul_probe::secure::equal_in_constant_time;
use std::net::SocketAddr;
use std::path::Path;

/// The maximum length of a user's name.
const MAX_USER_CHARS: usize = 100;
/// The rights of tokens, for error texts.
const RIGHTS_HINT: &str = "a token has the right to read (GET only) or to operate (also to start \
                           runs and to acknowledge events)";

/// The address of the client, or of the proxy in front of it. An extension of every request.
#[derive(Debug, Clone, Copy)]
pub struct PeerAddress(pub SocketAddr);

/// The user of a request that may read. An extension of every request of the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestUser {
    /// The name from the header of a trusted proxy, or else that of the token. `None` if neither
    /// gives one.
    pub name: Option<String>,
    /// The user may start runs and acknowledge events.
    pub may_operate: bool,
}

impl ApiState {
    /// Returns the user of a request that may read.
    pub fn authorize_read(&self, request: &Request) -> Result<RequestUser, ApiError> {
        let headers = request.headers();
        let file = self.state.file();
        let Some(path) = &file.api.token_file else {
            self.check_host_header(headers)?;
            // Without a token, only loopback is safe from other users.
            let may_operate = self.own_address.ip().is_loopback();
            return Ok(RequestUser { name: self.proxy_user(request), may_operate });
        };
        let token = read_token_file(&self.state.folder, path, "token_file")?;
        let refusal = match check_bearer_token(headers, &token) {
            Ok(()) => return Ok(RequestUser { name: self.proxy_user(request), may_operate: true }),
            Err(refusal) => refusal,
        };
        let stored = find_bearer(headers).map_or(Ok(None), |sent| self.state.tokens.find(sent));
        let Some(stored) = stored.map_err(|error| reject_token_store(&error))? else {
            return Err(refusal);
        };
        let may_operate = match stored.right {
            TokenRight::Read => false,
            TokenRight::Operate => true,
            TokenRight::Agent => {
                let text = "this token is of an agent, which may only send its results";
                return Err(
                    ApiError::new(StatusCode::FORBIDDEN, "agent_token", text).hint(RIGHTS_HINT)
                );
            }
        };
        let name = self.proxy_user(request).unwrap_or(stored.name);
        Ok(RequestUser { name: Some(name), may_operate })
    }

    /// Checks whether a request that may read may also change something.
    pub fn authorize_change(
        &self,
        user: &RequestUser,
        headers: &HeaderMap,
    ) -> Result<(), ApiError> {
        if !user.may_operate {
            let (text, hint) = if self.state.file().api.token_file.is_some() {
                ("this token may only read", RIGHTS_HINT)
            } else {
                (
                    "an agent that other hosts can reach without a token may only be read",
                    "set token_file in [api]",
                )
            };
            return Err(ApiError::new(StatusCode::FORBIDDEN, "read_only", text).hint(hint));
        }
        check_same_origin(headers)
    }

    /// Returns the user's name that a trusted proxy sent.
    fn proxy_user(&self, request: &Request) -> Option<String> {
        let file = self.state.file();
        let PeerAddress(peer) = request.extensions().get::<PeerAddress>()?;
        if !file.api.trusted_proxies.contains(&peer.ip().to_canonical()) {
            return None;
        }
        let name = request.headers().get(file.api.user_header.as_deref()?)?;
        let name = sanitize_line(&String::from_utf8_lossy(name.as_bytes()), MAX_USER_CHARS);
        Some(name.trim().to_owned()).filter(|it| !it.is_empty())
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
        "another site cannot start runs or change events in your name",
    )
    .hint("send the request from the agent's own page, or from a program"))
}

/// Returns the digest of the token in a file that `key` of `[api]` names.
pub fn read_token_file(folder: &Path, path: &Path, key: &str) -> Result<SecretDigest, ApiError> {
    let token = secret_file::read_secret(&folder.join(path)).map_err(|error| {
        let text = format!("cannot read {}: {error}", path.display());
        ApiError::unavailable("token_unreadable", text)
            .hint(format!("correct the file that {key} in [api] names"))
    })?;
    Ok(hash_secret(token.as_bytes()))
}

/// Returns the answer if the tokens cannot be read or changed.
pub fn reject_token_store(error: &TokenStoreError) -> ApiError {
    ApiError::unavailable("token_unreadable", format_error_chain(error))
        .hint("make the agent's folder beside its archive usable for the agent's user")
}

/// Returns the token that a request carries.
fn find_bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let sent = headers.get(AUTHORIZATION)?.as_bytes();
    let is_bearer = sent.get(..7).is_some_and(|it| it.eq_ignore_ascii_case(b"bearer "));
    is_bearer.then(|| sent[7..].trim_ascii())
}

pub fn check_bearer_token(headers: &HeaderMap, kept: &SecretDigest) -> Result<(), ApiError> {
    let refused = |text: &str| {
        let hint = format!(
            "send the header Authorization: Bearer TOKEN with a token from the agent's operator; \
             {RIGHTS_HINT}"
        );
        Err(ApiError::new(StatusCode::UNAUTHORIZED, "no_token", text).hint(hint))
    };
    if !headers.contains_key(AUTHORIZATION) {
        return refused("this agent requires a token with the right to read");
    }
    match find_bearer(headers) {
        Some(sent) if equal_in_constant_time(&hash_secret(sent), kept) => Ok(()),
        _ => refused("this token is not valid for this agent"),
    }
}
