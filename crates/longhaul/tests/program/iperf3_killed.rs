//! Servers of iperf3's wire that are killed at each step of a test of ours: the client ends with an
//! error that says so, and the next run against the restarted server works.

use crate::support::{self, free_port, longhaul};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// States of the wire after each of which the server is killed: parameters, streams, start,
/// running, results.
const STATES: [u8; 5] = [9, 10, 1, 2, 13];

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Debian's iperf3, 3.12.
    Iperf3,
    Longhaul,
}

impl Kind {
    /// Starts it and waits until it says that it listens.
    fn start(self, port: u16) -> Child {
        let (program, words, listens) = match self {
            Kind::Iperf3 => ("iperf3", "-s --forceflush", "Server listening"),
            Kind::Longhaul => {
                (env!("CARGO_BIN_EXE_longhaul"), "serve --anonymous --json", "\"serving\"")
            }
        };
        let mut command = Command::new(program);
        command.args(words.split(' '));
        command.args(["-B", "127.0.0.1", "-p", &port.to_string()]);
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let both = writer.try_clone().expect("the same pipe");
        let child = command.stdout(writer).stderr(both).spawn();
        // With the command its ends of the pipe are closed here.
        drop(command);
        let mut lines = BufReader::new(reader);
        let mut line = String::new();
        while !line.contains(listens) {
            line.clear();
            let read = lines.read_line(&mut line).expect("its output");
            assert!(read > 0, "{self:?} ended without listening");
        }
        // What it says later is nobody's concern, and must not block it.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        child.expect("a server")
    }
}

/// Killed with the test that started it.
struct Server(Mutex<Child>);

impl Server {
    fn kill(&self) {
        let mut child = self.0.lock().expect("the server");
        child.kill().expect("it can be killed");
        child.wait().expect("it is gone");
    }

    /// A connection to it, and never to who comes after it on this port.
    fn connect(&self, port: u16) -> Option<TcpStream> {
        let mut child = self.0.lock().expect("the server");
        let ended = child.try_wait().expect("its state");
        match ended {
            None => TcpStream::connect(("127.0.0.1", port)).ok(),
            Some(_) => None,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Relays every connection to the server. Kills the server as soon as it says `state` on the first
/// one, the control connection.
fn before(server: Arc<Server>, port: u16, state: u8) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let own = listener.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        let mut control = Some((Arc::clone(&server), state));
        for client in listener.incoming() {
            let Ok(client) = client else { return };
            // A dead server: the client's connection ends as well.
            if let Some(far) = server.connect(port) {
                hand_on(client, far, control.take());
            }
        }
    });
    own
}

fn hand_on(client: TcpStream, far: TcpStream, killed: Option<(Arc<Server>, u8)>) {
    let mut up = (client.try_clone().expect("up"), far.try_clone().expect("up"));
    std::thread::spawn(move || {
        // Ends when either connection does.
        let _ = std::io::copy(&mut up.0, &mut up.1);
        let _ = up.1.shutdown(Shutdown::Write);
    });
    std::thread::spawn(move || {
        let (mut from, mut to) = (far, client);
        let mut bytes = [0; 4096];
        while let Ok(count) = from.read(&mut bytes) {
            // Before the client knows the state: it would answer, and the server could end the test.
            if let Some((server, state)) = &killed
                && bytes[..count].contains(state)
            {
                server.kill();
            }
            if count == 0 || to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}

fn killed_at(kind: Kind, state: u8) {
    let port = free_port();
    let server = Arc::new(Server(Mutex::new(kind.start(port))));
    let before = before(Arc::clone(&server), port, state).to_string();
    let began = Instant::now();
    let words = ["test", "127.0.0.1", "--iperf3", "--no-save", "--quiet"];
    let run = ["-p", &before, "-t", "2", "-b", "10M", "-P", "2", "--bidir"];
    let assert = longhaul().args(words).args(run).assert().code(3);
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    let context = format!("{kind:?} killed at {state} after {:?}: {said}", began.elapsed());
    assert!(
        support::skip_lab_warning(&said).starts_with("error: ") && said.contains("hint: "),
        "{context}"
    );
    assert!(said.contains("closed") || said.contains("connection"), "{context}");
    drop(server);
    let again = Server(Mutex::new(kind.start(port)));
    let next = ["-p", &port.to_string(), "-n", "1M"];
    longhaul().args(words).args(next).assert().success();
    drop(again);
    println!("attack: tried 1");
}

#[test]
fn a_server_killed_at_any_step_is_an_error_and_serves_again_after_its_restart() {
    std::thread::scope(|scope| {
        for kind in [Kind::Iperf3, Kind::Longhaul] {
            // One after the other: their ports are free ones, not reserved ones.
            scope.spawn(move || STATES.map(|state| killed_at(kind, state)));
        }
    });
}
