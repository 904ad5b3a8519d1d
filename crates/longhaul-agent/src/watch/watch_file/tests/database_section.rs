//! The `[database]` section.

use super::super::{SecretFileState, WatchFile, WatchFileContext, parse_watch_file};
use longhaul_config::ConfigProblems;

fn read(section: &str) -> Result<WatchFile, ConfigProblems> {
    let text = format!(
        "[agent]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[host]]\nname = \"c\"\n\
         [[group]]\nname = \"g\"\nhosts = [\"b\", \"c\"]\n[[measure]]\nname = \"m\"\n\
         kind = \"path\"\nevery = \"10 min\"\n{section}"
    );
    let look = |_: &std::path::Path| SecretFileState::Private;
    let here = WatchFileContext { agent: None, check_secret: &look };
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
