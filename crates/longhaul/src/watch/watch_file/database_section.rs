//! `[database]`: a ClickHouse database that agents share, to which results are sent and from which
//! the page reads.

use super::agent_sections::{SecretFiles, check_url};
use super::section_table::WatchTable;
use std::path::PathBuf;
use std::time::Duration;

const KEYS: &[&str] = &[
    "url",
    "name",
    "user",
    "password_file",
    "cluster",
    "spool_bytes",
    "retain",
];
/// Advice for a build without the ClickHouse driver.
pub const BUILD_WITH_CLICKHOUSE: &str =
    "install a package, or build with `cargo build --release --features clickhouse`";
/// The maximum number of servers.
const URLS_MAX: usize = 64;
const DAY: Duration = Duration::from_secs(86_400);
/// The lower bound is the smallest useful spool; the file system limits it anyway.
const SPOOL_BYTES_RANGE: (u64, u64) = (1 << 20, 1 << 40);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseSection {
    /// Servers of one database; if one does not respond, the next is tried.
    pub urls: Vec<String>,
    pub name: String,
    pub user: String,
    pub password_file: Option<PathBuf>,
    /// Name of the cluster in the servers' configuration; absent: a single server.
    pub cluster: Option<String>,
    /// The maximum number of bytes kept for the database beyond `[retain]`.
    pub spool_bytes: u64,
    /// The retention of runs and values in the database; absent: this agent deletes nothing there.
    pub retain: Option<Duration>,
}

pub(super) fn read_database(
    top: &WatchTable<'_>,
    secrets: &SecretFiles<'_>,
) -> Option<DatabaseSection> {
    let table = top.table("database", KEYS)?;
    if !cfg!(feature = "clickhouse") {
        table.problems.add(
            table.node.line,
            "database",
            "this program was built without ClickHouse",
            BUILD_WITH_CLICKHOUSE,
        );
    }
    if top.get("collector").is_some() {
        let advice = "remove [collector] or [database]: results go to one destination";
        table.problems.add(
            table.node.line,
            "database",
            "conflicts with [collector]",
            advice,
        );
    }
    let advice = "write the URL of ClickHouse, such as \"https://db.example.net:8443\"";
    let has_url = table.require("url", advice);
    let urls = read_urls(&table);
    let name = |key: &str, usual: &str| match table.get(key) {
        Some(_) => table.name(key),
        None => Some(usual.to_owned()),
    };
    let (least, most) = SPOOL_BYTES_RANGE;
    Some(DatabaseSection {
        urls: urls.filter(|_| has_url)?,
        name: name("name", "longhaul")?,
        user: name("user", "default")?,
        password_file: secrets.read_path(&table, "password_file"),
        cluster: table.name("cluster"),
        spool_bytes: table.bytes("spool_bytes", least..=most).unwrap_or(1 << 30),
        retain: table.duration("retain", DAY..=DAY * 36_600),
    })
}

/// A URL may contain a password, so messages do not repeat it.
fn read_urls(table: &WatchTable<'_>) -> Option<Vec<String>> {
    let named = table.text_list("url")?;
    if named.is_empty() || named.len() > URLS_MAX {
        let what = format!("{} URLs are given", named.len());
        table.add_problem("url", what, format!("write 1 to {URLS_MAX} URLs"));
        return None;
    }
    let mut urls = Vec::new();
    for (text, line) in named {
        match check_url(&text, &["http", "https"]).and_then(reject_path) {
            Ok(url) => urls.push(url),
            Err(advice) => {
                table
                    .problems
                    .add(line, table.key("url"), "the value is invalid", advice);
            }
        }
    }
    Some(urls)
}

fn reject_path(url: String) -> Result<String, String> {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    if rest.trim_end_matches('/').contains(['/', '?', '#']) {
        return Err(
            "write only scheme, host and port; set the database with the key `name`".to_owned(),
        );
    }
    Ok(url)
}

#[cfg(all(test, feature = "clickhouse"))]
mod tests {
    use super::super::{
        SecretFileState, WatchFile, WatchFileContext, WatchFileProblems, parse_watch_file,
    };

    fn read(section: &str) -> Result<WatchFile, WatchFileProblems> {
        let text = format!(
            "[agent]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[host]]\nname = \"c\"\n\
             [[group]]\nname = \"g\"\nhosts = [\"b\", \"c\"]\n[[measure]]\nname = \"m\"\n\
             kind = \"path\"\nevery = \"10 min\"\n{section}"
        );
        let look = |_: &std::path::Path| SecretFileState::Private;
        let here = WatchFileContext {
            agent: None,
            check_secret: &look,
        };
        parse_watch_file("watch.toml", &text, &here)
    }

    #[test]
    fn a_database_is_named_by_its_url_alone() {
        let file = read("[database]\nurl = \"http://db:8123\"").expect("a file");
        let database = file.database.expect("a database");
        assert_eq!(database.urls, ["http://db:8123"]);
        assert_eq!((&*database.name, &*database.user), ("longhaul", "default"));
        assert_eq!((database.cluster, database.password_file), (None, None));
    }

    #[test]
    fn several_urls_lead_to_one_database() {
        let section = "[database]\nurl = [\"https://a\", \"https://b:9\"]\nname = \"fleet\"\n\
                       user = \"agent\"\npassword_file = \"secret\"\ncluster = \"mesh\"";
        let database = read(section).expect("a file").database.expect("a database");
        assert_eq!(database.urls, ["https://a", "https://b:9"]);
        assert_eq!(database.cluster.as_deref(), Some("mesh"));
    }

    #[test]
    fn a_wrong_url_is_told_and_never_repeated() {
        for (url, advice) in [
            ("\"http://me:hunter2@db\"", "token file"),
            ("\"http://db/longhaul\"", "`name`"),
            ("\"ftp://db\"", "http:// or https://"),
            ("[]", "write 1 to"),
        ] {
            let problems = read(&format!("[database]\nurl = {url}")).expect_err(url);
            let text = problems.to_string();
            assert!(text.contains(advice), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
        let both = "[collector]\nurl = \"https://c\"\n[database]\nurl = \"http://db\"";
        let text = read(both).expect_err("both").to_string();
        assert!(text.contains("one destination"), "{text}");
    }
}
