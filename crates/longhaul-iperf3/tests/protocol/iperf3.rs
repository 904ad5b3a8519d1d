//! iperf3's own client, 3.12 of Debian, against a far end of ours.

use crate::far_end::{FarEnd, HUNG, options};
use longhaul_iperf3::{AuthorizedUsers, Iperf3Handler, Iperf3Options};
use longhaul_probe::measurement_server::{
    AnonymousLimits, ProtocolHandler, ServeEvent, ServeOptions,
};
use rsa::pkcs8::{EncodePrivateKey, EncodePublicKey, LineEnding};
use serde_json::Value;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn handlers(options: Option<Iperf3Options>) -> Vec<Arc<dyn ProtocolHandler>> {
    vec![Arc::new(Iperf3Handler::new(options))]
}

pub fn open(runs: u32) -> ServeOptions {
    ServeOptions {
        anonymous: Some(AnonymousLimits {
            seconds: 3600,
            streams: 128,
            // The clients of a test have one network, which gets half.
            concurrent: 2 * runs,
            rate_bps: None,
            bytes: None,
        }),
        max_sessions: runs,
        handlers: handlers(Some(Iperf3Options::default())),
        ..options()
    }
}

pub fn client(far: &FarEnd, arguments: &[&str]) -> Child {
    let port = far.address.port().to_string();
    Command::new("iperf3")
        .args(["-c", "127.0.0.1", "-p", &port, "-J"])
        .args(arguments)
        .env("IPERF3_PASSWORD", "rossi")
        .stdout(Stdio::piped())
        .spawn()
        .expect("iperf3 is installed")
}

/// What the client printed; it must end by itself.
pub fn outcome(mut client: Child) -> Value {
    let mut text = String::new();
    let mut output = client.stdout.take().expect("piped");
    let reader =
        std::thread::spawn(move || output.read_to_string(&mut text).map(|_| text).expect("text"));
    let deadline = Instant::now() + HUNG;
    while client.try_wait().expect("a child").is_none() {
        if Instant::now() > deadline {
            client.kill().expect("it runs");
            panic!("iperf3 hangs");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let text = reader.join().expect("a reader");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

pub fn run(far: &FarEnd, arguments: &[&str]) -> Value {
    outcome(client(far, arguments))
}

/// As SIGKILL does: no farewell.
pub fn kill(mut client: Child) {
    client.kill().expect("it runs");
    client.wait().expect("a child");
}

pub fn error(outcome: &Value) -> Option<&str> {
    outcome["error"].as_str()
}

/// Like the rows of iperf3's own test_commands.sh; SCTP and CPU affinity of the client left out.
const ROWS: &[&str] = &[
    "-t1",
    "-t1 -4 -i 0.2",
    "-t1 -P 4",
    "-t1 -R",
    "-t1 -R -P 3 --get-server-output",
    "-t1 --bidir",
    "-t1 --bidir -P 2",
    "-t1 -O 1",
    "-t1 -O 1 -R",
    "-n 5M",
    "-n 5M -R",
    "-k 100 -l 64K",
    "-k 100 -R",
    "-t1 -w 128K",
    "-t1 -w 128K -R",
    "-t1 -M 1400",
    "-t1 -N -l 1400",
    "-t1 -Z",
    "-t1 -Z -R",
    "-t1 -S 16",
    "-t1 -C cubic",
    "-t1 -C cubic -R",
    "-t1 -b 50M",
    "-t1 -b 50M/10 -R",
    "-t1 --fq-rate 100M -R",
    "-t1 -T title --extra-data more",
    "-t1 --repeating-payload",
    "-t1 -A 0,0",
    "-u -t1",
    "-u -t1 -b 20M -R",
    "-u -t1 -b 20M -P 3 --get-server-output",
    "-u -t1 -b 20M --bidir",
    "-u -t1 -b 20M -l 1000 --udp-counters-64bit",
    "-u -t1 -b 20M -O 1",
    "-u -n 1M -b 50M",
    "-u -k 50 -b 50M -R",
];

#[test]
fn every_kind_of_test_runs_and_no_more_arrives_than_was_sent() {
    let far = FarEnd::start(open(16));
    for rows in ROWS.chunks(12) {
        let clients = rows.iter().map(|row| {
            let arguments: Vec<&str> = row.split(' ').collect();
            (*row, client(&far, &arguments))
        });
        let clients: Vec<_> = clients.collect();
        for (row, client) in clients {
            check(row, &outcome(client));
        }
    }
}

fn check(row: &str, outcome: &Value) {
    assert_eq!(error(outcome), None, "{row}");
    if row.contains("--get-server-output") {
        let text = outcome["server_output_text"].as_str().expect(row);
        assert!(text.starts_with("longhaul "), "{text}");
        assert_eq!(text.contains("\nsent "), row.contains("-R"), "{text}");
        assert!(!row.contains("-R") || text.contains("imited"), "{text}");
    }
    let end = &outcome["end"];
    if row.starts_with("-u") {
        let count = |key: &str| end["sum"][key].as_u64().expect(row);
        assert!(count("lost_packets") <= count("packets"), "{row}: {end}");
        return;
    }
    let count = |key: &str| end[key]["bytes"].as_u64().expect(row);
    let mut pairs = vec![(count("sum_sent"), count("sum_received"))];
    if row.contains("--bidir") {
        pairs.push((count("sum_sent_bidir_reverse"), count("sum_received_bidir_reverse")));
    }
    for (sent, received) in pairs {
        // How much of it the other end is in time to count, the machine decides, as between two of
        // iperf3's own; and when an omitted second is over, each end for itself.
        assert!(received <= sent || row.contains("-O"), "{row}: {sent} sent, {received} received");
    }
}

#[test]
fn fifty_clients_are_served_at_once() {
    let far = FarEnd::start(open(50));
    let clients: Vec<Child> = (0..50)
        .map(|index| {
            let kind: &[&str] = match index % 3 {
                0 => &["-t1", "-b", "2M"],
                1 => &["-t1", "-b", "1M", "-R", "-P", "2"],
                _ => &["-t1", "-b", "1M", "-u"],
            };
            client(&far, kind)
        })
        .collect();
    for client in clients {
        assert_eq!(error(&outcome(client)), None);
    }
}

#[test]
fn beyond_the_limits_a_client_is_told_at_once() {
    let far = FarEnd::start(open(1));
    let busy = client(&far, &["-t", "3600", "-b", "1M"]);
    far.event(|event| matches!(event, ServeEvent::SessionOpened { .. }).then_some(()));
    let second = run(&far, &["-t1"]);
    assert!(error(&second).is_some_and(|text| text.contains("busy")), "{second}");
    kill(busy);
    far.session_closed();
    for (arguments, words) in [
        (&["-t", "3601"][..], "too long"),
        (&["-t1", "-P", "128", "-C", "nosuch"][..], "congestion"),
    ] {
        let refused = run(&far, arguments);
        assert!(error(&refused).is_some_and(|text| text.contains(words)), "{refused}");
    }
    let limited = FarEnd::start(ServeOptions {
        anonymous: Some(AnonymousLimits {
            rate_bps: Some(1_000_000),
            ..AnonymousLimits::default()
        }),
        handlers: handlers(Some(Iperf3Options::default())),
        ..options()
    });
    let fast = run(&limited, &["-t1"]);
    assert!(error(&fast).is_some_and(|text| text.contains("bandwidth")), "{fast}");
    let modest = ["-n", "20K", "-l", "1K", "-b", "500K"];
    assert_eq!(error(&run(&limited, &modest)), None);
    let none = FarEnd::start(ServeOptions { handlers: handlers(None), ..options() });
    let refused = run(&none, &["-t1"]);
    assert!(error(&refused).is_some_and(|text| text.contains("busy")), "{refused}");
    none.event(|event| matches!(event, ServeEvent::ProtocolRefused { .. }).then_some(()));
}

#[test]
fn users_are_known_by_their_tokens() {
    let folder = std::env::temp_dir().join(format!("longhaul-iperf3-users-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = |name: &str| folder.join(name);
    let key = rsa::RsaPrivateKey::new(&mut rsa::rand_core::OsRng, 2048).expect("a key");
    let private = key.to_pkcs8_pem(LineEnding::LF).expect("PEM");
    let public = key.to_public_key().to_public_key_pem(LineEnding::LF).expect("PEM");
    std::fs::write(path("private.pem"), private.as_bytes()).expect("written");
    std::fs::write(path("public.pem"), public).expect("written");
    // SHA-256 of `{mario}rossi`, from iperf3's own manual.
    let list = "mario,bf7a49a846d44b454a5d11e7acfaf13d138bbe0b7483aa3e050879700572709b\n";
    std::fs::write(path("users.csv"), list).expect("written");
    let users =
        AuthorizedUsers::load(&path("private.pem"), &path("users.csv"), Duration::from_secs(600));
    let far = FarEnd::start(ServeOptions {
        token: Some("of no use to iperf3, but long enough".to_owned()),
        anonymous: None,
        handlers: handlers(Some(Iperf3Options { users: Some(users.expect("both are fine")) })),
        ..options()
    });
    let stranger = run(&far, &["-t1"]);
    assert!(error(&stranger).is_some_and(|text| text.contains("authorization")), "{stranger}");
    let public = path("public.pem").display().to_string();
    let named = |name| {
        ["-n", "1M", "-R", "--get-server-output", "--username", name, "--rsa-public-key-path"]
    };
    let with = |name| run(&far, &[named(name).as_slice(), &[public.as_str()]].concat());
    let mario = with("mario");
    assert_eq!(error(&mario), None);
    let output = mario["server_output_text"].as_str();
    assert!(output.is_some_and(|text| text.contains("sent ")), "{mario}");
    let luigi = with("luigi");
    assert!(error(&luigi).is_some_and(|text| text.contains("authorization")), "{luigi}");
    std::fs::remove_dir_all(folder).expect("removed");
}
