//! Access control: bearer tokens, and `Host` and `Origin` checks.
//!
//! Without a token the agent listens only on loopback (the watch file enforces this), and every
//! program on this host may read. Browsers on this host run untrusted code. Therefore the `Host`
//! header must name this agent, which prevents DNS rebinding, and requests that change something
//! must come from the page itself.
//!
//! With a token, every API request must carry it. Only its SHA-256 is kept.

use super::fault::Fault;
use crate::agent::desk::Desk;
use crate::watch::file::WatchFile;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, StatusCode};
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// The maximum size of a token line.
const TOKEN_BYTES: u64 = 4096;

/// The access policy of the current watch file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Access {
    Loopback,
    Token([u8; SHA256_OUTPUT_LEN]),
    /// The token file is unreadable, so access is denied to all.
    Closed(String),
}

pub struct Gate {
    desk: Arc<Desk>,
    own: SocketAddr,
    held: Mutex<(Arc<WatchFile>, Access)>,
}

impl Gate {
    pub fn new(desk: Arc<Desk>, own: SocketAddr) -> Gate {
        let file = desk.file();
        let access = access(&desk, &file);
        Gate {
            held: Mutex::new((file, access)),
            desk,
            own,
        }
    }

    /// Returns the policy of the current watch file, and updates it after a reload.
    fn access(&self) -> Access {
        let file = self.desk.file();
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&held.0, &file) {
            *held = (Arc::clone(&file), access(&self.desk, &file));
        }
        held.1.clone()
    }

    /// Checks whether the request may read.
    pub fn may_read(&self, headers: &HeaderMap) -> Result<(), Fault> {
        match self.access() {
            Access::Loopback => self.is_called_by_name(headers),
            Access::Token(kept) => carries(headers, &kept),
            Access::Closed(why) => Err(Fault::busy("token_unreadable", why)
                .hint("mend the file that token_file in [api] names, then reload the agent")),
        }
    }

    /// Checks whether a request that may read may also request runs.
    pub fn may_order(&self, headers: &HeaderMap) -> Result<(), Fault> {
        if self.access() == Access::Loopback && !self.own.ip().is_loopback() {
            return Err(Fault::new(
                StatusCode::FORBIDDEN,
                "read_only",
                "runs can be asked for with a token only, where other hosts reach the agent",
            )
            .hint("name a token_file in [api]"));
        }
        from_the_page(headers)
    }

    /// Checks that `Host` is an address or name of this agent.
    fn is_called_by_name(&self, headers: &HeaderMap) -> Result<(), Fault> {
        let called = headers.get(HOST).and_then(|host| host.to_str().ok());
        let file = self.desk.file();
        let own = file.own();
        let known = |name: &str| {
            name.eq_ignore_ascii_case("localhost")
                || name.eq_ignore_ascii_case(&own.name)
                || name.eq_ignore_ascii_case(&own.address)
                || name.parse() == Ok(self.own.ip())
        };
        let port = self.own.port();
        if called
            .and_then(|host| split(host, port))
            .is_some_and(|(name, at)| at == port && known(name))
        {
            return Ok(());
        }
        Err(Fault::new(
            StatusCode::MISDIRECTED_REQUEST,
            "foreign_host",
            format!("this agent is not called {:?}", called.unwrap_or("")),
        )
        .hint(format!(
            "use http://{}/ ; for other names, such as behind a proxy, name a token_file in [api]",
            self.own
        )))
    }
}

/// Splits `Host` into name and port; the port may be absent.
fn split(host: &str, own_port: u16) -> Option<(&str, u16)> {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()?),
        _ => (host, 80),
    };
    // Nothing is known here about a proxy on port 80 or 443.
    let port = if own_port == 443 && port == 80 {
        443
    } else {
        port
    };
    let name = name
        .strip_prefix('[')
        .and_then(|it| it.strip_suffix(']'))
        .unwrap_or(name);
    Some((name, port))
}

/// Checks the origin of the request. Browsers send it; other programs do not.
fn from_the_page(headers: &HeaderMap) -> Result<(), Fault> {
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
    Err(Fault::new(
        StatusCode::FORBIDDEN,
        "foreign_origin",
        "another site may not ask for runs in your name",
    )
    .hint("ask from the agent's own page, or from a program"))
}

fn carries(headers: &HeaderMap, kept: &[u8; SHA256_OUTPUT_LEN]) -> Result<(), Fault> {
    let refused = |text: &str| {
        Err(Fault::new(StatusCode::UNAUTHORIZED, "no_token", text)
            .hint("send `Authorization: Bearer TOKEN`; the agent's operator has the token"))
    };
    let Some(sent) = headers.get(AUTHORIZATION) else {
        return refused("this agent asks for a token");
    };
    let sent = sent.as_bytes();
    let scheme = sent
        .get(..7)
        .is_some_and(|it| it.eq_ignore_ascii_case(b"bearer "));
    if scheme && same(&hash(sent[7..].trim_ascii()), kept) {
        return Ok(());
    }
    refused("this token is not the agent's")
}

/// Compares two hashes in constant time.
fn same(one: &[u8; SHA256_OUTPUT_LEN], other: &[u8; SHA256_OUTPUT_LEN]) -> bool {
    let differing = one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
    std::hint::black_box(differing) == 0
}

fn hash(token: &[u8]) -> [u8; SHA256_OUTPUT_LEN] {
    let mut kept = [0; SHA256_OUTPUT_LEN];
    kept.copy_from_slice(digest(&SHA256, token).as_ref());
    kept
}

fn access(desk: &Desk, file: &WatchFile) -> Access {
    let Some(path) = &file.api.token_file else {
        return Access::Loopback;
    };
    let path = desk.folder.join(path);
    match first_line(&path) {
        Ok(line) if line.is_empty() => Access::Closed(format!("{} holds nothing", path.display())),
        Ok(line) => Access::Token(hash(&line)),
        Err(error) => Access::Closed(format!("{} cannot be read: {error}", path.display())),
    }
}

fn first_line(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    std::fs::File::open(path)?
        .take(TOKEN_BYTES)
        .read_to_end(&mut text)?;
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(line.trim_ascii().to_vec())
}
