//! TLS and sending agents in `[api]`.

use super::agent_sections::SecretFiles;
use super::section_table::WatchTable;
use std::path::PathBuf;

const AGENT_KEYS: &[&str] = &["name", "token_file", "relay"];
/// The maximum number of sending agents.
const MAX_AGENTS: usize = 10_000;

/// Certificate and key files, both PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// An agent that sends its results here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SenderConfig {
    pub name: String,
    pub token_file: PathBuf,
    /// May also send results of which it is neither end.
    pub relay: bool,
}

/// Certificate and key must both be present or both be absent.
pub(super) fn read_tls(table: &WatchTable<'_>, secrets: &SecretFiles<'_>) -> Option<TlsFiles> {
    let certificate = table.text("certificate").map(PathBuf::from);
    let key = secrets.read_path(table, "key");
    match (certificate, key) {
        (Some(certificate), Some(key)) => Some(TlsFiles { certificate, key }),
        (None, None) => None,
        (Some(_), None) => {
            if table.get("key").is_none() {
                table.add_problem(
                    "key",
                    "missing",
                    "name the PEM file with the key of the certificate",
                );
            }
            None
        }
        (None, Some(_)) => {
            let advice = "name the PEM file with the certificate and its intermediate certificates";
            table.add_problem("certificate", "missing", advice);
            None
        }
    }
}

pub(super) fn read_senders(api: &WatchTable<'_>, secrets: &SecretFiles<'_>) -> Vec<SenderConfig> {
    let tables = api.tables("agent", AGENT_KEYS);
    if tables.len() > MAX_AGENTS {
        let advice = format!("declare at most {MAX_AGENTS}");
        api.add_problem(
            "agent",
            format!("{} agents are too many", tables.len()),
            advice,
        );
    }
    let mut senders: Vec<SenderConfig> = Vec::new();
    for table in tables.iter().take(MAX_AGENTS) {
        let Some(sender) = read_sender(table, secrets) else {
            continue;
        };
        if senders.iter().any(|other| other.name == sender.name) {
            let advice = "declare each agent once, with a token of its own";
            table.reject_value("name", "is repeated", advice);
        } else {
            senders.push(sender);
        }
    }
    senders
}

fn read_sender(table: &WatchTable<'_>, secrets: &SecretFiles<'_>) -> Option<SenderConfig> {
    let named = table.require(
        "name",
        "write the name from [agent] of the agent's own watch file",
    );
    let held = table.require(
        "token_file",
        "name the file with the token that the agent sends",
    );
    let name = table.name("name");
    let token_file = secrets.read_path(table, "token_file");
    let relay = table.boolean("relay").unwrap_or(false);
    Some(SenderConfig {
        name: name.filter(|_| named)?,
        token_file: token_file.filter(|_| held)?,
        relay,
    })
}
