//! `[notify]`: who is told of an event: by webhook, by mail, by a command.

use super::problem::shown;
use super::sections::{Secrets, web_address};
use super::table::Table;
use std::path::PathBuf;

const KEYS: &[&str] = &["webhook", "email", "command"];
const WEBHOOK_KEYS: &[&str] = &["url", "token_file"];
const EMAIL_KEYS: &[&str] = &["smtp", "security", "user", "password_file", "from", "to"];
const SMTP_PORT: u16 = 587;
/// More arguments are a script's.
const WORDS_MAX: usize = 64;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notify {
    pub webhook: Option<Webhook>,
    pub email: Option<Email>,
    /// Program and arguments; the event comes as JSON on its standard input.
    pub command: Option<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    pub url: String,
    pub token_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Security {
    StartTls,
    Tls,
    None,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Email {
    pub host: String,
    pub port: u16,
    pub security: Security,
    pub user: Option<String>,
    pub password_file: Option<PathBuf>,
    pub from: String,
    pub to: Vec<String>,
}

pub(super) fn notify(top: &Table<'_>, secrets: &Secrets<'_>) -> Notify {
    let Some(table) = top.table("notify", KEYS) else {
        return Notify::default();
    };
    Notify {
        webhook: table
            .table("webhook", WEBHOOK_KEYS)
            .and_then(|table| webhook(&table, secrets)),
        email: table
            .table("email", EMAIL_KEYS)
            .and_then(|table| email(&table, secrets)),
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

fn email(table: &Table<'_>, secrets: &Secrets<'_>) -> Option<Email> {
    let mut complete = true;
    for (key, advice) in [
        (
            "smtp",
            "the mail host that takes the message, such as \"mail.example.net:587\"",
        ),
        ("from", "the address that sends"),
        ("to", "the addresses that are told"),
    ] {
        complete &= table.must_have(key, advice);
    }
    let smtp = table.parsed("smtp", smtp);
    let words = [
        ("starttls", Security::StartTls),
        ("tls", Security::Tls),
        ("none", Security::None),
    ];
    let security = table.word("security", &words).unwrap_or(Security::StartTls);
    let user = table.text("user");
    let password_file = secrets.file(table, "password_file");
    if user.is_some() != table.get("password_file").is_some() {
        let (here, there) = match user {
            Some(_) => ("user", "password_file"),
            None => ("password_file", "user"),
        };
        table.wrong(here, format!("without {there}"), "give both, or neither");
    }
    if user.is_some() && security == Security::None {
        let advice = "use starttls or tls, or send without user";
        table.wrong("security", "the password would go in the clear", advice);
    }
    let from = table.parsed("from", mail_address);
    let mut to = Vec::new();
    for (address, line) in table.texts("to").unwrap_or_default() {
        match mail_address(&address) {
            Ok(address) => to.push(address),
            Err(advice) => {
                let what = format!("{} is no address", shown(&address));
                table.found.add(line, table.key("to"), what, advice);
            }
        }
    }
    let (host, port) = smtp.filter(|_| complete)?;
    Some(Email {
        host,
        port,
        security,
        user,
        password_file,
        from: from?,
        to,
    })
}

fn smtp(text: &str) -> Result<(String, u16), String> {
    let right = || "write a host and its port, such as \"mail.example.net:587\"".to_owned();
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().map_err(|_| right())?),
        None => (text, SMTP_PORT),
    };
    let fine = |c: char| c.is_alphanumeric() || "-_.:[]".contains(c);
    if host.is_empty() || port == 0 || !host.chars().all(fine) {
        return Err(right());
    }
    Ok((host.to_owned(), port))
}

fn mail_address(text: &str) -> Result<String, String> {
    let parts = text.split_once('@');
    let fine = |part: &str| {
        !part.is_empty() && !part.contains(|c: char| c.is_whitespace() || "<>,;@".contains(c))
    };
    match parts {
        Some((user, host)) if fine(user) && fine(host) => Ok(text.to_owned()),
        _ => Err("write it as noc@example.net".to_owned()),
    }
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
