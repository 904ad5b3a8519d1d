//! What went wrong, in iperf3's words where it has some: scripts look for them.

use crate::cli::iperf3::writer::plain;
use longhaul_iperf3::client_run::{ClientStep, ClientTestEnd, Iperf3RunError};
use longhaul_probe::probe_error::ProbeError;
use std::error::Error;

/// The text behind `iperf3: error - `.
pub fn text(error: &Iperf3RunError) -> String {
    match error {
        Iperf3RunError::Probe(
            ProbeError::Resolve { source, .. } | ProbeError::Connect { source, .. },
        ) => {
            format!("unable to connect to server: {}", plain(source))
        }
        Iperf3RunError::Test { closed, .. } => ended(closed),
        other => match other.source() {
            Some(source) => format!("{other}: {source}"),
            None => other.to_string(),
        },
    }
}

fn ended(closed: &ClientTestEnd) -> String {
    match closed {
        ClientTestEnd::Busy => "the server is busy running a test. try again later".to_owned(),
        ClientTestEnd::Denied { .. } => {
            "the server denied access: it is busy, or wants another user".to_owned()
        }
        ClientTestEnd::Refused { refusal, .. } if refusal.code == 142 => {
            "test authorization failed".to_owned()
        }
        ClientTestEnd::Refused { refusal, .. } => refusal.to_string(),
        ClientTestEnd::Terminated { .. } => "the server has terminated".to_owned(),
        ClientTestEnd::Cut {
            step: ClientStep::Greeting,
            ..
        } => "unable to receive control message: the server closed the connection".to_owned(),
        ClientTestEnd::Cut { .. } => "control socket has closed unexpectedly".to_owned(),
        other => match other.hint() {
            Some(hint) => format!("{other}; {hint}"),
            None => other.to_string(),
        },
    }
}
