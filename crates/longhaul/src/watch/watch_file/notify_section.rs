//! `[notify]`: notifications of events by webhook or command.

use super::agent_sections::{SecretFiles, check_url};
use super::section_table::WatchTable;
use std::path::PathBuf;

const KEYS: &[&str] = &["webhook", "command"];
const WEBHOOK_KEYS: &[&str] = &["url", "token_file"];
/// The maximum number of words in a command.
const MAX_COMMAND_WORDS: usize = 64;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NotifySection {
    pub webhook: Option<WebhookConfig>,
    /// Program and arguments. The event is written to its standard input as JSON.
    pub command: Option<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookConfig {
    pub url: String,
    pub token_file: Option<PathBuf>,
}

pub(super) fn read_notify(top: &WatchTable<'_>, secrets: &SecretFiles<'_>) -> NotifySection {
    let Some(table) = top.table("notify", KEYS) else {
        return NotifySection::default();
    };
    NotifySection {
        webhook: table
            .table("webhook", WEBHOOK_KEYS)
            .and_then(|table| read_webhook(&table, secrets)),
        command: read_command(&table),
    }
}

fn read_webhook(table: &WatchTable<'_>, secrets: &SecretFiles<'_>) -> Option<WebhookConfig> {
    let has = table.require("url", "write the URL of the webhook, such as \"https://…\"");
    let url = table.parse_secret("url", |text| check_url(text, &["https", "http"]));
    let token_file = secrets.read_path(table, "token_file");
    if token_file.is_some() && url.as_ref().is_some_and(|url| url.starts_with("http://")) {
        let advice = "use https, or remove token_file";
        table.add_problem("url", "would send the token unencrypted", advice);
    }
    Some(WebhookConfig {
        url: url.filter(|_| has)?,
        token_file,
    })
}

fn read_command(table: &WatchTable<'_>) -> Option<Vec<String>> {
    let words: Vec<String> = table
        .text_list("command")?
        .into_iter()
        .map(|(it, _)| it)
        .collect();
    let program = words.first().map(String::as_str).unwrap_or_default();
    if !program.starts_with('/') || words.len() > MAX_COMMAND_WORDS {
        let advice = "write [\"/full/path/of/program\", \"argument\"]";
        table.reject_value("command", "does not start with a full path", advice);
        return None;
    }
    Some(words)
}
