//! `[notify]`: notifications of events by webhook or command.

use super::sections::{Secrets, web_address};
use super::table::Table;
use std::path::PathBuf;

const KEYS: &[&str] = &["webhook", "command"];
const WEBHOOK_KEYS: &[&str] = &["url", "token_file"];
/// The maximum number of words in a command.
const WORDS_MAX: usize = 64;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notify {
    pub webhook: Option<Webhook>,
    /// Program and arguments. The event is written to its standard input as JSON.
    pub command: Option<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    pub url: String,
    pub token_file: Option<PathBuf>,
}

pub(super) fn notify(top: &Table<'_>, secrets: &Secrets<'_>) -> Notify {
    let Some(table) = top.table("notify", KEYS) else {
        return Notify::default();
    };
    Notify {
        webhook: table
            .table("webhook", WEBHOOK_KEYS)
            .and_then(|table| webhook(&table, secrets)),
        command: command(&table),
    }
}

fn webhook(table: &Table<'_>, secrets: &Secrets<'_>) -> Option<Webhook> {
    let has = table.must_have("url", "where events are posted to, such as \"https://…\"");
    let url = table.parsed_unseen("url", |text| web_address(text, &["https", "http"]));
    let token_file = secrets.file(table, "token_file");
    if token_file.is_some() && url.as_ref().is_some_and(|url| url.starts_with("http://")) {
        let advice = "use https, or leave token_file out";
        table.wrong("url", "would carry the token in the clear", advice);
    }
    Some(Webhook {
        url: url.filter(|_| has)?,
        token_file,
    })
}

fn command(table: &Table<'_>) -> Option<Vec<String>> {
    let words: Vec<String> = table
        .texts("command")?
        .into_iter()
        .map(|(it, _)| it)
        .collect();
    let program = words.first().map(String::as_str).unwrap_or_default();
    if !program.starts_with('/') || words.len() > WORDS_MAX {
        let advice = "write [\"/full/path/of/program\", \"argument\"]";
        table.refuse("command", "does not begin with a full path", advice);
        return None;
    }
    Some(words)
}
