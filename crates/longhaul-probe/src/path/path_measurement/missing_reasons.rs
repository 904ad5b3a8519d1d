//! Texts that explain why a part is missing.

use crate::path::PathError;
use crate::path::path_error::protocol_name;
use crate::probe_error::{ProbeError, describe_error_chain};
use longhaul_model::report::v1::path::ProbeProtocol;
use std::net::IpAddr;

pub(in crate::path) const STOPPED: &str = "interrupted before this step";

fn add_hint(mut text: String, hint: Option<&str>) -> String {
    if let Some(hint) = hint {
        text.push_str("; ");
        text.push_str(hint);
    }
    text
}

pub(in crate::path) fn describe_path_error(error: &PathError) -> String {
    add_hint(describe_error_chain(error), error.hint())
}

pub(in crate::path) fn describe_server_error(error: &ProbeError) -> String {
    add_hint(describe_error_chain(error), error.hint())
}

/// Describes a part that requires longhaul on the target, which did not take part.
pub(in crate::path) fn describe_missing_server(what: &str, error: &ProbeError) -> String {
    format!("{what} requires `longhaul serve` on the target: {}", describe_server_error(error))
}

/// Describes an unanswered series of probes.
pub(super) fn describe_unanswered_probes(
    protocol: ProbeProtocol,
    denied: Option<(IpAddr, &'static str)>,
) -> String {
    let name = protocol_name(protocol);
    match denied {
        Some((by, word)) => format!("{name} probes are not answered: {by} reports {word}"),
        None => format!("{name} probes are not answered: a firewall may drop them"),
    }
}

/// Describes the failure of the requested probes, and the protocol used instead.
pub(super) fn describe_substitute_protocol(troubles: &[String], used: ProbeProtocol) -> String {
    let why = troubles.join("; ");
    format!("{why}; measured with {} instead", protocol_name(used))
}

/// Caveat for UDP, whose answers are rate limited.
pub(super) const UDP_LIMIT: &str = "most hosts answer UDP probes only about once a second: \
     losses at shorter intervals are not losses of the path";

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn a_reason_names_its_causes_and_what_to_do() {
        let error = ProbeError::Connect {
            host: "far".to_owned(),
            address: "192.0.2.1:5201".parse().expect("an address"),
            source: io::ErrorKind::ConnectionRefused.into(),
        };
        let text = describe_missing_server("the return route", &error);
        for part in ["the return route", "cannot connect to far", "refused", "longhaul serve"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn who_denies_is_named() {
        let router = "192.0.2.1".parse().expect("an address");
        let text = describe_unanswered_probes(ProbeProtocol::Tcp, Some((router, "prohibited")));
        assert_eq!(text, "TCP probes are not answered: 192.0.2.1 reports prohibited");
    }
}
