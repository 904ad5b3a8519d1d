//! A template of perfSONAR that the agent fetches from a web server.

use crate::stage::*;
use longhaul_sys::signal::Signal;
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// Serves the answer, which the test may change. Returns the URL.
fn serve_template(answer: Arc<Mutex<String>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/mesh.json", listener.local_addr().expect("its address"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.set_read_timeout(Some(DEADLINE));
            let mut request = BufReader::new(stream.try_clone().expect("its other half")).lines();
            while request.next().is_some_and(|line| line.is_ok_and(|it| !it.is_empty())) {}
            let text = answer.lock().expect("nobody panicked").clone();
            let _ = stream.write_all(text.as_bytes());
        }
    });
    url
}

/// An answer with a template of one task with this name.
fn template(task: &str) -> String {
    let template = json!({
        "addresses": {"near": {"address": "192.0.2.1"}, "far": {"address": "127.0.0.1"}},
        "groups": {"g": {"type": "mesh", "addresses": [{"name": "near"}, {"name": "far"}]}},
        "schedules": {"s": {"repeat": "PT1S"}},
        "tests": {"t": {"type": "rtt", "spec": {"dest": "{% address[1] %}", "count": 1}}},
        "tasks": {task: {"group": "g", "test": "t", "schedule": "s"}},
    });
    format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{template}")
}

#[test]
fn a_template_from_a_url_is_followed_and_the_last_good_one_stays() {
    let folder = Folder::new("template-url");
    let answer = Arc::new(Mutex::new(template("one")));
    let url = serve_template(Arc::clone(&answer));
    let text = format!(
        "include = \"{url}\"\n[agent]\nname = \"near\"\narchive = \"archive.sqlite3\"\n\
         listen = \"127.0.0.1:0\"\njitter = \"0 s\"\n"
    );
    folder.write("watch.toml", &text);
    let mut agent = Agent::start(&folder);
    agent.wait_for("watching");
    assert_eq!(agent.wait_for("run")["measurement"], "one");
    let reload = |agent: &mut Agent, now: String, words: &str| {
        *answer.lock().expect("nobody panicked") = now;
        agent.signal(Signal::SIGHUP);
        agent.wait_for_words(words);
    };
    reload(&mut agent, template("two"), "watch file reloaded");
    let two = agent.next(|it| it["event"] == "run" && it["measurement"] == "two");
    assert!(two.is_some(), "the new template is followed");
    let gone = "HTTP/1.1 503 Busy\r\nconnection: close\r\n\r\n".to_owned();
    reload(&mut agent, gone, "the server answered 503");
    agent.wait_for_words("keeping the previous one");
    assert_eq!(agent.wait_for("run")["measurement"], "two");
    let page = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n<html>".to_owned();
    reload(&mut agent, page, "keeping the previous one");
    assert_eq!(agent.wait_for("run")["measurement"], "two");
    reload(&mut agent, template("three"), "watch file reloaded");
    agent.stop();
}
