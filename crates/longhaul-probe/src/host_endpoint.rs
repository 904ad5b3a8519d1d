//! A host as people type it, with or without a port.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// A host and, if it was typed with the host, a port.
///
/// Parses `host`, `host:port`, `v4`, `v4:port`, `v6`, `v6%scope`, `[v6]`, `[v6]:port` and
/// `[v6%scope]:port` (RFC 3986 section 3.2.2; RFC 4007 section 11 for scopes). Names are not
/// resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostEndpoint {
    /// A name or an address, without brackets, with a scope if one was typed.
    pub host: String,
    pub port: Option<u16>,
}

impl HostEndpoint {
    /// Returns the port that was typed with the host, else that of the option, else the default.
    pub fn port_or(&self, option: Option<u16>) -> u16 {
        self.port.or(option).unwrap_or(crate::DEFAULT_PORT)
    }
}

/// An IPv6 address with a scope, such as `fe80::1%eth0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScopedAddress<'a> {
    pub address: Ipv6Addr,
    /// Name or number of an interface of this host.
    pub scope: Option<&'a str>,
}

impl<'a> ScopedAddress<'a> {
    /// Parses an IPv6 address without brackets; `None` for everything else.
    pub fn parse(text: &'a str) -> Option<ScopedAddress<'a>> {
        let (address, scope) = match text.split_once('%') {
            Some((address, scope)) => (address, Some(scope)),
            None => (text, None),
        };
        let is_name = |scope: &str| {
            let is_legal = |c: char| !c.is_whitespace() && !c.is_control() && !"/:]".contains(c);
            (1..=15).contains(&scope.len()) && scope.chars().all(is_legal)
        };
        scope.is_none_or(is_name).then_some(ScopedAddress { address: address.parse().ok()?, scope })
    }
}

/// The reason why a text is not a host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    #[error("not a host name or address")]
    Host,
    #[error("`{0}` is not a port; ports are 1 to 65535")]
    Port(String),
    #[error("not an IPv6 address in the brackets")]
    Brackets,
    #[error("write an IPv6 address with a port as `[ADDRESS]:PORT`")]
    Colons,
    #[error("only an IPv6 address can have an interface after `%`; use `--bind-dev` with others")]
    Scope,
}

impl FromStr for HostEndpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<HostEndpoint, EndpointError> {
        let whole = |host: &str| HostEndpoint { host: host.to_owned(), port: None };
        if let Some(bracketed) = text.strip_prefix('[') {
            let (inside, after) = bracketed.split_once(']').ok_or(EndpointError::Brackets)?;
            ScopedAddress::parse(inside).ok_or(EndpointError::Brackets)?;
            return match after.strip_prefix(':') {
                Some(port) => Ok(HostEndpoint { port: Some(parse_port(port)?), ..whole(inside) }),
                None if after.is_empty() => Ok(whole(inside)),
                None => Err(EndpointError::Host),
            };
        }
        if ScopedAddress::parse(text).is_some() {
            return Ok(whole(text));
        }
        let mut parts = text.split(':');
        let (host, port) = (parts.next().unwrap_or_default(), parts.next());
        if parts.next().is_some() {
            return Err(EndpointError::Colons);
        }
        check_name(host)?;
        Ok(HostEndpoint { port: port.map(parse_port).transpose()?, ..whole(host) })
    }
}

fn parse_port(text: &str) -> Result<u16, EndpointError> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.parse().ok().filter(|port| is_number && *port != 0);
    port.ok_or_else(|| EndpointError::Port(text.to_owned()))
}

/// Checks the characters of a name; the resolver decides about the rest.
fn check_name(name: &str) -> Result<(), EndpointError> {
    let is_legal = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    if name.contains('%') {
        return Err(EndpointError::Scope);
    }
    let is_name = !name.is_empty() && name.len() <= 253 && !name.starts_with('-');
    if is_name && name.chars().all(is_legal) { Ok(()) } else { Err(EndpointError::Host) }
}

impl fmt::Display for HostEndpoint {
    /// Writes the endpoint as it can be parsed again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) if self.host.contains(':') => write!(f, "[{}]:{port}", self.host),
            Some(port) => write!(f, "{}:{port}", self.host),
            None => f.write_str(&self.host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_host_and_port_is_parsed_and_written_again() {
        for (text, host, port) in [
            ("far", "far", None),
            ("far.example.net:17100", "far.example.net", Some(17100)),
            ("192.0.2.1", "192.0.2.1", None),
            ("127.0.0.1:17100", "127.0.0.1", Some(17100)),
            ("2001:db8::1", "2001:db8::1", None),
            ("[2001:db8::1]", "2001:db8::1", None),
            ("[::1]:17100", "::1", Some(17100)),
            ("::1%lo", "::1%lo", None),
            ("fe80::1%eth0", "fe80::1%eth0", None),
            ("[fe80::1%eth0.7]", "fe80::1%eth0.7", None),
            ("[fe80::1%2]:5201", "fe80::1%2", Some(5201)),
        ] {
            let endpoint = HostEndpoint { host: host.to_owned(), port };
            assert_eq!(text.parse(), Ok(endpoint.clone()), "{text}");
            assert_eq!(endpoint.to_string().parse(), Ok(endpoint), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused_with_the_reason() {
        use EndpointError::{Brackets, Colons, Host, Scope};
        let port = |text: &str| EndpointError::Port(text.to_owned());
        for (text, error) in [
            ("", Host),
            ("-x", Host),
            ("a b", Host),
            ("a/b", Host),
            (":5201", Host),
            ("[::1]x", Host),
            ("far:", port("")),
            ("far:0", port("0")),
            ("far:65536", port("65536")),
            ("far:+1", port("+1")),
            ("far:http", port("http")),
            ("[::1]:", port("")),
            ("[]", Brackets),
            ("[far]:5201", Brackets),
            ("[::1", Brackets),
            ("[fe80::1%]", Brackets),
            ("far:1:2", Colons),
            ("2001:db8::1::5201", Colons),
            ("far%eth0", Scope),
            ("192.0.2.1%eth0", Scope),
        ] {
            assert_eq!(text.parse::<HostEndpoint>(), Err(error), "{text}");
        }
    }
}
