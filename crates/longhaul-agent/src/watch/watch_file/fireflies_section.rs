//! `[fireflies]`: where the agent receives fireflies.

use super::agent_sections::listen_address;
use serde::Deserialize;
use std::net::{Ipv4Addr, SocketAddr};

/// The port to which flowd and flowd-go send.
const DEFAULT_PORT: u16 = 10514;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FirefliesSection {
    /// Datagrams are not signed, so that only senders that are trusted should reach this address.
    #[serde(deserialize_with = "listen_address::<_, DEFAULT_PORT>")]
    pub listen: SocketAddr,
}

impl Default for FirefliesSection {
    fn default() -> Self {
        FirefliesSection { listen: SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT)) }
    }
}
