//! Databases that are not there, not all there, or of another time.

use crate::delivery_cases::{of_runs, open};
use crate::embedded::{self, ask};
use crate::history_cases::{MIDNIGHT_US, run};
use longhaul_clickhouse::{ClickHouseOptions, ClickHouseSink};
use longhaul_store::StoreError;
use std::net::TcpListener;

/// The URL of a port at which nobody listens.
fn dead() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    format!("http://{}", listener.local_addr().expect("an address"))
}

fn refused(options: ClickHouseOptions) -> (StoreError, String) {
    let Err(error) = ClickHouseSink::open(options) else { panic!("it is opened") };
    let cause = std::error::Error::source(&error).map(ToString::to_string);
    (error, cause.unwrap_or_default())
}

#[test]
fn a_database_that_nobody_serves_is_named_with_the_reason() {
    let url = dead();
    let (error, cause) = refused(ClickHouseOptions {
        urls: vec![url.clone()],
        password: Some(String::from("hunter2")),
        ..ClickHouseOptions::default()
    });
    let text = error.to_string();
    assert!(text.contains(&url) && text.contains("version"), "{text}");
    assert!(cause.contains("refused"), "{cause}");
    assert!(error.hint().is_some_and(|hint| hint.contains("/ping")));
    assert!(!format!("{error:?} {cause}").contains("hunter2"));
}

#[test]
fn a_url_with_a_password_in_it_is_refused_and_not_repeated() {
    let (error, _) = refused(ClickHouseOptions {
        urls: vec![String::from("http://me:hunter2@127.0.0.1:8123")],
        ..ClickHouseOptions::default()
    });
    let text = error.to_string();
    assert!(text.contains("URL 1") && !text.contains("hunter2"), "{text}");
}

#[test]
fn the_next_url_is_asked_where_one_is_dead() {
    let mut options = embedded::options();
    options.urls.insert(0, dead());
    options.urls.push(dead());
    let mut sink = ClickHouseSink::open(options.clone()).expect("the second one serves");
    sink.receive(&of_runs(vec![run("a", MIDNIGHT_US, 1.0)])).expect("stored");
    options.urls.remove(0);
    assert_eq!(ask(&options, "SELECT at_us, value FROM value"), format!("{MIDNIGHT_US}\t1"));
}

#[test]
fn tables_of_a_later_longhaul_are_left_alone() {
    let options = embedded::options();
    drop(open(&options));
    ask(&options, "INSERT INTO schema_step VALUES (99)");
    let (error, cause) = refused(options);
    assert!(cause.contains("schema 99"), "{error}: {cause}");
    assert!(error.hint().is_some_and(|hint| hint.contains("upgrade")));
}
