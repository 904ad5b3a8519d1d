//! `[notify]`, `[collector]`, `[database]` and `[api]`: other programs that the agent talks to.

use super::agent_sections::{DAY_S, MAX_RETAIN_S};
use super::{SecretFileState, WatchFileReader, host_tables};
use longhaul_config::{config_values, quote_value};
use serde::Deserialize;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The maximum number of words in a command.
const MAX_COMMAND_WORDS: usize = 64;
/// Advice for a build without the ClickHouse driver.
pub const BUILD_WITH_CLICKHOUSE: &str =
    "install a package, or build with `cargo build --release --features clickhouse`";
/// The maximum number of servers of a database.
const MAX_URLS: usize = 64;

/// Notifications of events by webhook or command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NotifySection {
    pub webhook: Option<WebhookConfig>,
    /// Program and arguments. The event is written to its standard input as JSON.
    #[serde(deserialize_with = "config_values::texts")]
    pub command: Option<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookConfig {
    #[serde(deserialize_with = "config_values::line")]
    pub url: String,
    pub token_file: Option<PathBuf>,
}

/// A receiver of metrics by OTLP/HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtlpSection {
    /// The whole URL, whose path usually is `/v1/metrics`.
    #[serde(deserialize_with = "config_values::line")]
    pub url: String,
    pub token_file: Option<PathBuf>,
    #[serde(
        default = "default_otlp_interval",
        deserialize_with = "config_values::duration::<_, _, 1, DAY_S>"
    )]
    pub every: Duration,
}

const fn default_otlp_interval() -> Duration {
    Duration::from_secs(60)
}

/// A collector that results are sent to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectorSection {
    #[serde(deserialize_with = "config_values::line")]
    pub url: String,
    pub token_file: Option<PathBuf>,
    /// The token with which the agent enrols, to send with a token of its own.
    pub enrol_token_file: Option<PathBuf>,
    /// CA certificates for the collector as PEM; absent: those of the system.
    pub ca_file: Option<PathBuf>,
}

/// A ClickHouse database that agents share, to which results are sent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatabaseSection {
    /// Servers of one database; if one does not respond, the next is tried.
    #[serde(rename = "url", deserialize_with = "config_values::texts")]
    pub urls: Vec<String>,
    #[serde(default = "default_database", deserialize_with = "config_values::name")]
    pub name: String,
    #[serde(default = "default_user", deserialize_with = "config_values::name")]
    pub user: String,
    pub password_file: Option<PathBuf>,
    /// Name of the cluster in the servers' configuration; absent: a single server.
    #[serde(default, deserialize_with = "config_values::name")]
    pub cluster: Option<String>,
    /// The retention of runs and values in the database; absent: this agent deletes nothing there.
    #[serde(default, deserialize_with = "config_values::duration::<_, _, DAY_S, MAX_RETAIN_S>")]
    pub retain: Option<Duration>,
}

fn default_database() -> String {
    "longhaul".to_owned()
}

fn default_user() -> String {
    "default".to_owned()
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ApiSection {
    pub token_file: Option<PathBuf>,
    /// The token with which agents enrol.
    pub enrol_token_file: Option<PathBuf>,
    /// The header in which a proxy sends the name of the user.
    #[serde(deserialize_with = "config_values::name")]
    pub user_header: Option<String>,
    /// The proxies whose header counts.
    pub trusted_proxies: Vec<IpAddr>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    /// Agents that send their results here.
    #[serde(rename = "agent")]
    pub senders: Vec<SenderConfig>,
}

impl ApiSection {
    /// Returns whether the file names agents that may send their results here, or lets them enrol.
    pub fn is_collector(&self) -> bool {
        !self.senders.is_empty() || self.enrol_token_file.is_some()
    }

    /// Returns the files of certificate and key, both PEM, if page and API use TLS.
    pub fn tls_files(&self) -> Option<(&Path, &Path)> {
        self.certificate.as_deref().zip(self.key.as_deref())
    }
}

/// An agent that sends its results here.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SenderConfig {
    #[serde(deserialize_with = "config_values::name")]
    pub name: String,
    pub token_file: PathBuf,
    /// May also send results of which it is neither end.
    #[serde(default)]
    pub relay: bool,
}

impl WatchFileReader<'_, '_> {
    /// Checks a secret file without exposing its content.
    pub(super) fn check_secret(&self, at: &str, path: Option<&Path>) {
        let Some(path) = path else {
            return;
        };
        let name = quote_value(&path.to_string_lossy());
        let (what, advice) = match (self.check_secret)(path) {
            SecretFileState::Private => return,
            SecretFileState::Unreadable(why) => (
                format!("cannot read {name}: {why}"),
                "write the token into this file, readable by the agent's user".to_owned(),
            ),
            SecretFileState::Open(mode) => (
                format!("{name} can be read by other users (mode {mode:03o})"),
                format!("run `chmod 600 {}`", name.trim_matches('`')),
            ),
        };
        self.document.add(at, what, advice);
    }

    /// Checks a URL. User and password are rejected, because they would be secrets in the file; so
    /// problems do not repeat the value.
    fn check_url(&self, at: &str, url: &str, schemes: &[&str]) {
        let host = schemes.iter().find_map(|scheme| {
            let rest = url.strip_prefix(scheme)?.strip_prefix("://")?;
            rest.split(['/', '?', '#']).next()
        });
        let host = host.filter(|host| !host.is_empty() && !url.contains(char::is_whitespace));
        let advice = match host {
            Some(host) if host.contains('@') => {
                "put user and password into a token file".to_owned()
            }
            Some(_) => return,
            None => format!("write {}://HOST/…", schemes.join(":// or ")),
        };
        self.document.add(at, "the value is invalid", advice);
    }

    /// Checks a URL to which the token of a file may be sent.
    pub(super) fn check_receiver(
        &self,
        section: &str,
        url: &str,
        secret_key: &str,
        secret_file: Option<&Path>,
    ) {
        let at = format!("{section}.url");
        self.check_url(&at, url, &["https", "http"]);
        self.check_secret(&format!("{section}.{secret_key}"), secret_file);
        if secret_file.is_some() && url.starts_with("http://") {
            let what = "would send the token unencrypted";
            self.document.add(&at, what, format!("use https, or remove {secret_key}"));
        }
    }

    pub(super) fn check_otlp(&self, section: &OtlpSection) {
        self.check_receiver("otlp", &section.url, "token_file", section.token_file.as_deref());
    }

    pub(super) fn check_notify(&self, section: &NotifySection) {
        if let Some(WebhookConfig { url, token_file }) = &section.webhook {
            self.check_receiver("notify.webhook", url, "token_file", token_file.as_deref());
        }
        if let Some(words) = &section.command {
            let has_path = words.first().is_some_and(|it| it.starts_with('/'));
            if !has_path || words.len() > MAX_COMMAND_WORDS {
                let why = "does not start with a full path";
                let advice = "write [\"/full/path/of/program\", \"argument\"]";
                self.document.reject("notify.command", why, advice);
            }
        }
    }

    pub(super) fn check_collector(&self, section: &CollectorSection) {
        self.check_url("collector.url", &section.url, &["https"]);
        self.check_secret("collector.token_file", section.token_file.as_deref());
        self.check_secret("collector.enrol_token_file", section.enrol_token_file.as_deref());
        if section.token_file.is_some() && section.enrol_token_file.is_some() {
            let what = "conflicts with token_file";
            self.document.add("collector.enrol_token_file", what, "remove one of the two");
        }
    }

    pub(super) fn check_database(&self, section: &DatabaseSection) {
        if !cfg!(feature = "clickhouse") {
            let what = "this program was built without ClickHouse";
            self.document.add("database", what, BUILD_WITH_CLICKHOUSE);
        }
        if self.document.has("collector") {
            let advice = "remove [collector] or [database]: results go to one destination";
            self.document.add("database", "conflicts with [collector]", advice);
        }
        if section.urls.is_empty() || section.urls.len() > MAX_URLS {
            let what = format!("{} URLs are given", section.urls.len());
            let advice = format!("write 1 to {MAX_URLS} URLs");
            self.document.add("database.url", what, advice);
        }
        for (number, url) in section.urls.iter().enumerate() {
            let at = format!("database.url.{number}");
            self.check_url(&at, url, &["http", "https"]);
            let rest = url.split_once("://").map_or("", |(_, rest)| rest);
            if rest.trim_end_matches('/').contains(['/', '?', '#']) {
                let advice =
                    "write only scheme, host and port; set the database with the key `name`";
                self.document.add(&at, "the value is invalid", advice);
            }
        }
        self.check_secret("database.password_file", section.password_file.as_deref());
    }

    pub(super) fn check_api(&self, section: &ApiSection, listen: SocketAddr) {
        if !listen.ip().is_loopback() && !self.document.has("api.token_file") {
            let what = format!("`{listen}` can be reached from other hosts");
            let advice = "set token_file in [api], or listen on 127.0.0.1";
            self.document.add("agent.listen", what, advice);
        }
        self.check_secret("api.token_file", section.token_file.as_deref());
        self.check_secret("api.enrol_token_file", section.enrol_token_file.as_deref());
        self.check_secret("api.key", section.key.as_deref());
        for (here, there, advice) in [
            ("key", "certificate", "name the PEM file with the key of the certificate"),
            (
                "certificate",
                "key",
                "name the PEM file with the certificate and its intermediate certificates",
            ),
        ] {
            let [here, there] = [here, there].map(|key| format!("api.{key}"));
            if self.document.has(&there) && !self.document.has(&here) {
                self.document.add(&here, "missing", advice);
            }
        }
        let proxies = ["user_header", "trusted_proxies"].map(|key| format!("api.{key}"));
        let [has_header, has_proxies] = [0, 1].map(|index| self.document.has(&proxies[index]));
        if has_header != has_proxies {
            let at = &proxies[usize::from(has_header)];
            let advice = "write user_header = \"X-Forwarded-User\" and the addresses of your \
                          proxies in trusted_proxies = [\"127.0.0.1\"]";
            self.document.add(at, "missing", advice);
        }
        self.check_senders(&section.senders);
    }

    fn check_senders(&self, senders: &[SenderConfig]) {
        let names = senders.iter().map(|it| &it.name);
        host_tables::refuse_repeated_names(self.document, "api.agent", "agent", names);
        for (index, sender) in senders.iter().enumerate() {
            let at = format!("api.agent.{index}");
            self.check_secret(&format!("{at}.token_file"), Some(&sender.token_file));
        }
    }
}
