//! What strangers and mistakes ask: refused with a reason, and nobody let in.

use super::scene::{PATIENCE, Scene, TOKEN};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

const SERIES: &str = "/api/v1/series?from=slac&to=cesnet&quantity=goodput";

#[test]
fn every_parameter_is_held_to_what_it_may_be() {
    let scene = Scene::new();
    let long = "x".repeat(300);
    for (query, why) in [
        ("/api/v1/series?from=slac&quantity=goodput", "both from and to"),
        ("/api/v1/series?quantity=goodput", "from and to are missing"),
        ("/api/v1/grid", "quantity is missing"),
        ("/api/v1/grid?quantity=speed", "one of goodput"),
        (&format!("{SERIES}&points=1"), "from 2 to 100000"),
        (&format!("{SERIES}&points=4294967296"), "from 2 to 100000"),
        (&format!("{SERIES}&points=many"), "a whole number"),
        (&format!("{SERIES}&begin_us=-1"), "a whole number from 0"),
        (&format!("{SERIES}&end_us=99999999999999999999"), "a whole number from 0"),
        (&format!("{SERIES}&begin_us=5&end_us=5"), "the range is empty"),
        (&format!("{SERIES}&from=other"), "is repeated"),
        (&format!("{SERIES}&colour=red"), "unknown parameter \\\"colour\\\""),
        ("/api/v1/series?from=a%00b&to=c&quantity=loss", "control characters"),
        ("/api/v1/series?from=%1b%5b2J&to=c&quantity=loss", "control characters"),
        (&format!("/api/v1/series?from={long}&to=c&quantity=loss"), "too long"),
        ("/api/v1/series?from=&to=c&quantity=loss", "it is empty"),
        ("/api/v1/events?state=open", "one of suspected"),
        ("/api/v1/events?open=1", "one of true, false"),
        ("/api/v1/runs?kind=%27%20OR%201=1--", "one of throughput"),
        ("/api/v1/runs?limit=0", "from 1 to 5000"),
        ("/api/v1/runs/%0a", "control characters"),
        ("/api/v1/pairs?x=1", "unknown parameter"),
    ] {
        let answer = scene.get(query);
        assert_eq!(answer.status, 400, "{query}: {}", answer.body);
        assert_eq!(answer.code(), "bad_request", "{query}");
        assert!(answer.body.contains(why), "{query}: {}", answer.body);
        assert!(answer.body.len() < 600, "{query} comes back whole");
        println!("attack: tried 1");
    }
}

#[test]
fn no_address_leads_out_of_the_page_or_the_archive() {
    let scene = Scene::new();
    for path in [
        "/../Cargo.toml",
        "/assets/../../Cargo.toml",
        "/assets/%2e%2e/%2e%2e/etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
    ] {
        let answer = scene.get(path);
        assert!(!answer.body.contains("root:") && !answer.body.contains("[package]"), "{path}");
        println!("attack: tried 1");
    }
    for path in ["/api/v1/runs/..%2f..%2fetc%2fpasswd", "/api/v1/nothing", "/api", "/api/v2/about"]
    {
        let answer = scene.get(path);
        assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"), "{path}");
        println!("attack: tried 1");
    }
    let long = format!("/api/v1/pairs?x={}", "y".repeat(10_000));
    assert_eq!(scene.get(&long).status, 414);
    assert_eq!(scene.ask("DELETE", "/api/v1/pairs", &[], "").code(), "bad_method");
    assert_eq!(scene.ask("POST", "/", &[], "x").code(), "read_only");
}

#[test]
fn without_a_token_only_a_name_of_this_host_is_answered() {
    let scene = Scene::new();
    let port = scene.at.port();
    let status = |host: &str| {
        let host = format!("host: {host}");
        scene.ask("GET", "/api/v1/about", &[&host], "").status
    };
    for host in ["127.0.0.1", "localhost", "LOCALHOST", "slac"] {
        assert_eq!(status(&format!("{host}:{port}")), 200, "{host}");
    }
    for host in [
        "rebound.example.net".to_owned(),
        format!("rebound.example.net:{port}"),
        "localhost".to_owned(),
        "127.0.0.1:1".to_owned(),
        String::new(),
    ] {
        assert_eq!(status(&host), 421, "{host}");
        println!("attack: tried 1");
    }
    let bare = scene.raw("GET /metrics HTTP/1.0\r\n\r\n");
    assert_eq!(bare.status, 421);
}

#[test]
fn with_a_token_nothing_of_the_api_is_told_without_it() {
    let scene = Scene::closed();
    let ask = |header: &str| scene.ask("GET", "/api/v1/about", &[header], "");
    for header in [
        "x-nothing: 1".to_owned(),
        "authorization: Bearer".to_owned(),
        "authorization: Bearer wrong".to_owned(),
        format!("authorization: Bearer {TOKEN}x"),
        format!("authorization: Bearer {}", &TOKEN[1..]),
        format!("authorization: Basic {TOKEN}"),
        format!("authorization: {TOKEN}"),
    ] {
        let answer = ask(&header);
        assert_eq!((answer.status, answer.code().as_str()), (401, "no_token"), "{header}");
        println!("attack: tried 1");
    }
    let right = format!("authorization: Bearer {TOKEN}");
    assert_eq!(ask(&right).status, 200);
    for path in [SERIES, "/metrics", "/api/v1/live", "/api/v1/openapi.json"] {
        assert_eq!(scene.get(path).status, 401, "{path}");
    }
    // The page itself asks for the token; another name is no danger then.
    assert_eq!(scene.get("/").status, 200);
    let proxied = ["host: watch.example.net", &right];
    assert_eq!(scene.ask("GET", "/api/v1/about", &proxied, "").status, 200);
}

#[test]
fn a_token_file_that_is_gone_lets_nobody_in() {
    let scene = Scene::closed();
    std::fs::remove_file(scene.folder.join("token")).expect("it was there");
    // As after a reload: another value, with the same in it.
    let file = scene.desk.file();
    *scene.desk.file.write() = std::sync::Arc::new((*file).clone());
    let right = format!("authorization: Bearer {TOKEN}");
    let answer = scene.ask("GET", "/api/v1/about", &[&right], "");
    assert_eq!((answer.status, answer.code().as_str()), (503, "token_unreadable"));
}

#[test]
fn large_and_broken_requests_end_in_an_error() {
    let scene = Scene::new();
    let json = "content-type: application/json";
    let body = format!("{{\"measure\": \"{}\"}}", "x".repeat(100_000));
    assert_eq!(scene.ask("POST", "/api/v1/runs", &[json], &body).status, 413);
    let many: Vec<String> = (0..400).map(|it| format!("x-{it}: y\r\n")).collect();
    let many = many.concat();
    let raw = format!("GET / HTTP/1.1\r\nhost: {}\r\n{many}\r\n", scene.at);
    assert_eq!(scene.raw(&raw).status, 431);
    assert_eq!(scene.raw("\u{1}\u{2}\u{3}\r\n\r\n").status, 400);
    println!("attack: tried 3");
}

#[test]
fn headers_that_never_end_are_cut_off() {
    let scene = Scene::new();
    scene.runtime.block_on(async {
        let mut slow = scene.open("GET / HTTP/1.1\r\nhost: x\r\n").await;
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(PATIENCE, slow.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "the connection stays open for ever");
    });
    assert_eq!(scene.get("/healthz").status, 200, "others are served");
    println!("attack: tried 1");
}

#[test]
fn three_hundred_idle_connections_of_one_source_leave_room_for_others() {
    const IDLE: usize = 300;
    let scene = Scene::new();
    let request = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\n\r\n", scene.at);
    let mut idle = scene.runtime.block_on(async {
        let mut idle = Vec::new();
        for _ in 0..IDLE {
            let socket = TcpSocket::new_v4().expect("a socket");
            socket.bind("127.9.9.9:0".parse().expect("an address")).expect("loopback");
            let mut stream = socket.connect(scene.at).await.expect("it listens");
            stream.write_all(request.as_bytes()).await.expect("it reads");
            idle.push(stream);
        }
        idle
    });
    assert_eq!(scene.get("/healthz").status, 200);
    let is_open = |stream: &TcpStream| {
        let mut bytes = [0; 4096];
        loop {
            match stream.try_read(&mut bytes) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
            }
        }
    };
    scene.runtime.block_on(async {
        idle.retain(is_open);
    });
    assert!(idle.len() > 200, "{} are open: the request waited for their end", idle.len());
    println!("attack: tried {IDLE}");
}
