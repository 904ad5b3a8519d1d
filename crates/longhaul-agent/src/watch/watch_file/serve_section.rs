//! `[serve]`: the server with which the agent answers runs of others.

use super::agent_sections::{interface_rate, listen_address};
use super::{WatchFile, WatchFileReader};
use longhaul_config::config_values;
use longhaul_model::units::Rate;
use longhaul_probe::measurement_server::AnonymousLimits;
use longhaul_probe::plan_limits::MAX_STREAMS;
use serde::Deserialize;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

const MOST_STREAMS: u64 = MAX_STREAMS as u64;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServeSection {
    /// The unspecified IPv6 address stands for all addresses.
    #[serde(deserialize_with = "listen_address::<_, 0>")]
    pub listen: SocketAddr,
    /// The token of clients; absent: all clients are anonymous.
    pub token_file: Option<PathBuf>,
    /// Refuses clients without the token.
    pub token_only: bool,
    #[serde(deserialize_with = "config_values::whole::<_, _, u32, 1, 1024>")]
    pub max_sessions: u32,
    #[serde(deserialize_with = "config_values::whole::<_, _, u32, 1, MOST_STREAMS>")]
    pub max_streams: u32,
    /// Clients may request captures of their own streams.
    pub captures: bool,
    /// iperf3 clients are served.
    pub iperf3: bool,
    /// Folders with files for copies: `DIR` or `DIR:rw`.
    #[serde(deserialize_with = "config_values::texts")]
    pub files: Vec<String>,
    /// The user with whose rights files are read and written if the agent is root; absent: the
    /// owner of each folder.
    pub files_user: Option<String>,
    #[serde(deserialize_with = "config_values::whole::<_, _, u32, 1, 1024>")]
    anonymous_runs: Option<u32>,
    #[serde(deserialize_with = "config_values::whole::<_, _, u32, 1, MOST_STREAMS>")]
    anonymous_streams: Option<u32>,
    #[serde(deserialize_with = "config_values::duration::<_, _, 1, 86_400>")]
    anonymous_time: Option<Duration>,
    #[serde(deserialize_with = "interface_rate")]
    anonymous_rate: Option<Rate>,
    #[serde(deserialize_with = "config_values::bytes::<_, _, u64, 1, { 1 << 60 }>")]
    anonymous_bytes: Option<u64>,
}

impl Default for ServeSection {
    fn default() -> Self {
        ServeSection {
            listen: SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
            token_file: None,
            token_only: false,
            max_sessions: 32,
            max_streams: MAX_STREAMS,
            captures: true,
            iperf3: true,
            files: Vec::new(),
            files_user: None,
            anonymous_runs: None,
            anonymous_streams: None,
            anonymous_time: None,
            anonymous_rate: None,
            anonymous_bytes: None,
        }
    }
}

impl ServeSection {
    /// Returns the limits of clients without the token; `None` refuses them.
    pub fn anonymous_limits(&self) -> Option<AnonymousLimits> {
        let default = AnonymousLimits::default();
        (!self.token_only).then(|| AnonymousLimits {
            seconds: self.anonymous_time.map_or(default.seconds, |it| it.as_secs()),
            streams: self.anonymous_streams.unwrap_or(default.streams),
            concurrent: self.anonymous_runs.unwrap_or(default.concurrent),
            rate_bps: self.anonymous_rate.map(Rate::as_bps).or(default.rate_bps),
            bytes: self.anonymous_bytes.or(default.bytes),
        })
    }
}

impl WatchFileReader<'_, '_> {
    /// Checks `[serve]`. Without a port it listens on that of the agent's own host.
    pub(super) fn complete_serve(&self, file: &mut WatchFile) {
        let own_port = file.own_host().port;
        let page = file.agent.listen;
        let Some(serve) = &mut file.serve else {
            return;
        };
        if serve.listen.port() == 0 {
            serve.listen.set_port(own_port);
        }
        self.check_secret("serve.token_file", serve.token_file.as_deref());
        if serve.token_only && serve.token_file.is_none() {
            let advice = "name the file with the token of clients in token_file";
            self.document.add("serve.token_only", "there is no token", advice);
        }
        let is_any = page.ip().is_unspecified() || serve.listen.ip().is_unspecified();
        if serve.listen.port() == page.port() && (is_any || serve.listen.ip() == page.ip()) {
            let what = format!("`{}` is the port of page and API, too", serve.listen.port());
            let advice = "give the server or `listen` in [agent] another port";
            self.document.add("serve.listen", what, advice);
        }
    }
}
