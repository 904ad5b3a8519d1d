//! The engine of ClickHouse in a process of its own, for as long as these tests run.

use longhaul_clickhouse::ClickHouseOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

const HOW: &str = "the embedded ClickHouse is not here: `cargo xtask clickhouse` installs it into \
                   the target folder (or name a Python that has the package chdb in LONGHAUL_CHDB_PYTHON)";

/// A slow machine needs some seconds to load half a gigabyte of engine.
const START_WITHIN: Duration = Duration::from_secs(600);

struct Shim {
    port: u16,
    /// Holds its standard input: it ends when this process does.
    _process: Child,
}

static SHIM: OnceLock<Shim> = OnceLock::new();
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A database of a test's own in it.
pub fn options() -> ClickHouseOptions {
    let shim = SHIM.get_or_init(start);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    ClickHouseOptions {
        urls: vec![format!("http://127.0.0.1:{}", shim.port)],
        database: format!("fleet-{number}"),
        ..ClickHouseOptions::default()
    }
}

/// Returns the answer of the database to a query, as another program would get it.
pub fn ask(options: &ClickHouseOptions, sql: &str) -> String {
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
    let (_, body) = answer.split_once("\r\n\r\n").expect("an answer");
    body.trim().to_owned()
}

fn python() -> PathBuf {
    if let Some(named) = std::env::var_os("LONGHAUL_CHDB_PYTHON") {
        return PathBuf::from(named);
    }
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("../tools/chdb/bin/python")
}

fn start() -> Shim {
    let folder = format!("{}/embedded-{}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    let python = python();
    let mut process = Command::new(&python)
        // Other crates' tests take this file in, too.
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../longhaul-clickhouse/tests/shim.py"))
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {}: {error}; {HOW}", python.display()));
    let out = process.stdout.take().expect("its output");
    let (say, said) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = BufReader::new(out).read_line(&mut line);
        let _ = say.send(line);
    });
    let line = said.recv_timeout(START_WITHIN).unwrap_or_default();
    let port = line.trim().parse();
    Shim {
        port: port.unwrap_or_else(|_| panic!("{} says {line:?}; {HOW}", python.display())),
        _process: process,
    }
}
