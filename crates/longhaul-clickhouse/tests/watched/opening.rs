//! Databases that are not there, not all there, or of another time.

use crate::embedded;
use crate::suite::{MIDNIGHT_US, points, run};
use longhaul_clickhouse::{ClickHouseOptions, open_history_store};
use longhaul_store::StoreError;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// The URL of a port at which nobody listens.
fn dead() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    format!("http://{}", listener.local_addr().expect("an address"))
}

fn refused(options: ClickHouseOptions) -> (StoreError, String) {
    let Err(error) = open_history_store(options) else { panic!("it is opened") };
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
    let mut archive = open_history_store(options).expect("the second one serves");
    archive.append_runs(&[run("a", MIDNIGHT_US, 1.0)]).expect("stored");
    assert_eq!(points(archive.as_ref()), [(MIDNIGHT_US, 1.0)]);
}

#[test]
fn tables_of_a_later_longhaul_are_left_alone() {
    let options = embedded::options();
    drop(open_history_store(options.clone()).expect("the tables are made"));
    say(&options, "INSERT INTO schema_step VALUES (99)");
    let (error, cause) = refused(options);
    assert!(cause.contains("schema 99"), "{error}: {cause}");
    assert!(error.hint().is_some_and(|hint| hint.contains("upgrade")));
}

/// As another program would; with the head of the answer.
pub fn say(options: &ClickHouseOptions, sql: &str) -> String {
    let address = options.urls[0].trim_start_matches("http://");
    let mut to = TcpStream::connect(address).expect("a connection");
    let (database, length) = (&options.database, sql.len());
    let head = format!(
        "POST /?database={database} HTTP/1.1\r\nHost: db\r\nConnection: close\r\n\
         Content-Length: {length}\r\n\r\n{sql}"
    );
    to.write_all(head.as_bytes()).expect("asked");
    let mut answer = String::new();
    to.read_to_string(&mut answer).expect("answered");
    assert!(answer.starts_with("HTTP/1.1 200"), "{sql}: {answer}");
    answer
}
