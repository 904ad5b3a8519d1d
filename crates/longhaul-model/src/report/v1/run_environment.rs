//! The network that a run was measured in.

use super::RunParty;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;

/// The network that a run was measured in. In JSON it is one word: `network`, `loopback`, or
/// `lab:NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum RunEnvironment {
    Network,
    /// Both ends are the same host.
    Loopback,
    /// An emulated path of this name.
    Lab(String),
    /// A word of a later version.
    Other(String),
}

/// The prefix of the name of an emulated path.
const LAB_PREFIX: &str = "lab:";

impl RunEnvironment {
    /// Returns the environment of a run between two ends; `lab` is the name of the emulated path,
    /// if there is one.
    pub fn of_run(initiator: &RunParty, responder: &RunParty, lab: Option<&str>) -> RunEnvironment {
        let address = responder.address.as_deref().and_then(|it| it.parse::<IpAddr>().ok());
        let is_own = responder.address.is_some() && responder.address == initiator.address;
        match lab {
            _ if is_own || address.is_some_and(|it| it.is_loopback()) => RunEnvironment::Loopback,
            Some(name) => RunEnvironment::Lab(name.to_owned()),
            None => RunEnvironment::Network,
        }
    }
}

impl From<String> for RunEnvironment {
    fn from(word: String) -> RunEnvironment {
        match word.as_str() {
            "network" => RunEnvironment::Network,
            "loopback" => RunEnvironment::Loopback,
            other => match other.strip_prefix(LAB_PREFIX) {
                Some(name) => RunEnvironment::Lab(name.to_owned()),
                None => RunEnvironment::Other(word),
            },
        }
    }
}

impl From<RunEnvironment> for String {
    fn from(environment: RunEnvironment) -> String {
        environment.to_string()
    }
}

impl fmt::Display for RunEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunEnvironment::Network => f.write_str("network"),
            RunEnvironment::Loopback => f.write_str("loopback"),
            RunEnvironment::Lab(name) => write!(f, "{LAB_PREFIX}{name}"),
            RunEnvironment::Other(word) => f.write_str(word),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RunEnvironment;
    use crate::report::v1::RunParty;

    fn party(address: &str) -> RunParty {
        RunParty { address: Some(address.to_owned()), ..RunParty::default() }
    }

    #[test]
    fn a_run_to_an_own_address_is_on_loopback_even_in_a_lab() {
        let near = party("10.77.0.1");
        for (far, lab, expected) in [
            ("10.77.0.2", None, "network"),
            ("10.77.0.2", Some("la-geneva"), "lab:la-geneva"),
            ("10.77.0.1", Some("la-geneva"), "loopback"),
            ("127.0.0.2", None, "loopback"),
            ("::1", None, "loopback"),
        ] {
            assert_eq!(RunEnvironment::of_run(&near, &party(far), lab).to_string(), expected);
        }
        let unknown = RunParty::default();
        let audit = RunEnvironment::of_run(&unknown, &unknown, None);
        assert_eq!(audit, RunEnvironment::Network);
    }

    #[test]
    fn a_word_of_a_later_version_is_kept() {
        for word in ["network", "loopback", "lab:tcp-1999", "satellite"] {
            assert_eq!(RunEnvironment::from(word.to_owned()).to_string(), word);
        }
    }
}
