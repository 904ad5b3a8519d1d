//! TLS and sending agents in `[api]`.

use super::sections::Secrets;
use super::table::Table;
use std::path::PathBuf;

const AGENT_KEYS: &[&str] = &["name", "token_file", "relay"];
/// The maximum number of sending agents.
const AGENTS_MAX: usize = 10_000;

/// Certificate and key files, both PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// An agent that sends its results here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    pub name: String,
    pub token_file: PathBuf,
    /// May also send results of which it is neither end.
    pub relay: bool,
}

/// Certificate and key must both be present or both be absent.
pub(super) fn tls(table: &Table<'_>, secrets: &Secrets<'_>) -> Option<Tls> {
    let certificate = table.text("certificate").map(PathBuf::from);
    let key = secrets.file(table, "key");
    match (certificate, key) {
        (Some(certificate), Some(key)) => Some(Tls { certificate, key }),
        (None, None) => None,
        (Some(_), None) => {
            if table.get("key").is_none() {
                table.wrong(
                    "key",
                    "missing",
                    "the file with the certificate's key, as PEM",
                );
            }
            None
        }
        (None, Some(_)) => {
            let advice = "the file with the certificate and those that sign it, as PEM";
            table.wrong("certificate", "missing", advice);
            None
        }
    }
}

pub(super) fn senders(api: &Table<'_>, secrets: &Secrets<'_>) -> Vec<Sender> {
    let tables = api.tables("agent", AGENT_KEYS);
    if tables.len() > AGENTS_MAX {
        let advice = format!("at most {AGENTS_MAX}");
        api.wrong("agent", format!("{} agents", tables.len()), advice);
    }
    let mut senders: Vec<Sender> = Vec::new();
    for table in tables.iter().take(AGENTS_MAX) {
        let Some(sender) = sender(table, secrets) else {
            continue;
        };
        if senders.iter().any(|other| other.name == sender.name) {
            let advice = "each agent stands here once, with a token of its own";
            table.refuse("name", "was named before", advice);
        } else {
            senders.push(sender);
        }
    }
    senders
}

fn sender(table: &Table<'_>, secrets: &Secrets<'_>) -> Option<Sender> {
    let named = table.must_have("name", "as the agent's own file calls it");
    let held = table.must_have("token_file", "the file with the token that the agent sends");
    let name = table.name("name");
    let token_file = secrets.file(table, "token_file");
    let relay = table.boolean("relay").unwrap_or(false);
    Some(Sender {
        name: name.filter(|_| named)?,
        token_file: token_file.filter(|_| held)?,
        relay,
    })
}
