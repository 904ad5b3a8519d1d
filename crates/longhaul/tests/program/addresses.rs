//! Hosts with several addresses, with ports and with interfaces, and what is said of those that
//! cannot be reached.

use crate::loopback::FarEnd;
use crate::support::{HUNG, longhaul};
use assert_cmd::Command;
use serde_json::Value;
use std::net::TcpListener;

/// A run that hardly sends.
const BRIEF: [&str; 6] = ["-n", "64K", "--no-save", "-q", "-P", "1"];

fn stderr(arguments: &[&str], code: i32) -> String {
    let assert = longhaul().args(arguments).args(["--no-save"]).assert().code(code);
    String::from_utf8(assert.get_output().stderr.clone()).expect("UTF-8")
}

#[test]
fn a_port_may_stand_with_the_host_in_every_command() {
    let far = FarEnd::start(&["--anonymous"]);
    let host = format!("127.0.0.1:{}", far.port);
    let run = |arguments: &[&str]| longhaul().args(arguments).assert().success();
    run(&[&["test", &host][..], &BRIEF].concat());
    run(&[&["test", &host, "-p", &far.port][..], &BRIEF].concat());
    run(&[&["iperf3", "-c", &host][..], &BRIEF].concat());
    run(&["path", &host, "--no-save", "-q", "-c", "1", "--no-mtu", "--no-names", "--json"]);
    run(&["available", &host, "--no-save", "-q", "--light"]);
    run(&["load", &host, "--no-save", "-q", "-t", "100ms", "--idle", "500ms"]);
}

#[test]
fn a_port_in_two_places_must_be_the_same() {
    for arguments in [
        &["test", "far.invalid:5202", "-p", "5203"][..],
        &["iperf3", "-c", "[::1]:5202", "-p", "5203"],
        &["tune", "far.invalid:5202", "--port", "5203"],
    ] {
        let text = stderr(arguments, 2);
        assert!(text.contains("error: two different ports: "), "{arguments:?}: {text}");
        assert!(text.contains(":5202` and `--port 5203`"), "{arguments:?}: {text}");
    }
}

#[test]
fn what_is_no_host_is_refused_with_the_reason_and_never_resolved() {
    for (host, why) in [
        ("far:http", "`http` is not a port; ports are 1 to 65535"),
        ("127.0.0.1:70000", "`70000` is not a port; ports are 1 to 65535"),
        ("2001:db8::1::5201", "write an IPv6 address with a port as `[ADDRESS]:PORT`"),
        ("[far]:5201", "not an IPv6 address in the brackets"),
        ("192.0.2.1%eth0", "use `--bind-dev` with others"),
        ("two words", "not a host name or address"),
    ] {
        let text = stderr(&["test", host], 2);
        assert!(text.contains(&format!("error: invalid value '{host}' for '<HOST>'")), "{text}");
        assert!(text.contains(why), "{host}: {text}");
    }
}

#[test]
fn an_ipv6_address_may_name_its_interface() {
    let listener = TcpListener::bind("[::1]:0").expect("IPv6 on loopback");
    let port = listener.local_addr().expect("its address").port().to_string();
    drop(listener);
    let text = stderr(&["test", "::1%lo", "-p", &port], 3);
    assert!(text.contains("refused"), "{text}");
    for host in [format!("[::1%lo]:{port}"), format!("[::1]:{port}")] {
        let text = stderr(&["test", &host], 3);
        assert!(text.contains("refused"), "{host}: {text}");
    }
    let text = stderr(&["test", "::1%no-such-dev"], 3);
    assert!(text.contains("this host has no interface `no-such-dev`"), "{text}");
    let text = stderr(&["test", "fe80::1"], 2);
    assert!(
        text.contains("error: cannot connect to fe80::1: a link-local address needs"),
        "{text}"
    );
    assert!(text.contains("hint: add the interface, such as `fe80::1%"), "{text}");
}

/// Two namespaces. `half` has a dead IPv6 and a living IPv4 address, `shut` is prohibited by the
/// router, `none` is dead by both, and IPv4 alone has a server.
const NETWORK: &str = r#"
    set -e
    mount --make-rprivate /
    mount -t tmpfs tmpfs /run
    ip netns add far
    ip link set lo up
    ip link add lh0 type veth peer name lh0 netns far
    ip address add 10.99.0.1/24 dev lh0
    ip address add fd99::1/64 dev lh0 nodad
    ip address add fe80::98/64 dev lh0 nodad
    ip link set lh0 addrgenmode none
    ip link set lh0 up
    ip -n far address add 10.99.0.2/24 dev lh0
    ip -n far address add fe80::99/64 dev lh0 nodad
    ip -n far link set lh0 addrgenmode none
    ip -n far link set lh0 up
    ip -n far link set lo up
    ip netns exec far sysctl -qw net.ipv4.ip_forward=1
    ip -n far route add prohibit 10.98.0.0/24
    ip route add 10.98.0.0/24 via 10.99.0.2
    printf 'fd99::dead half none\n10.99.0.2 half\n10.98.0.1 shut none\n' >/run/hosts
    mount --bind /run/hosts /etc/hosts
    ip netns exec far "$0" serve --anonymous >/run/log 2>&1 &
    trap "kill $!" EXIT
    until grep -q serving /run/log; do kill -0 $!; sleep 0.1; done
    "$@"
"#;

/// Runs a command of longhaul in the network.
pub fn in_network(arguments: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.timeout(HUNG).env("XDG_DATA_HOME", env!("CARGO_TARGET_TMPDIR"));
    let program = env!("CARGO_BIN_EXE_longhaul");
    command.args(["--map-root-user", "--net", "--mount", "sh", "-c", NETWORK, program, program]);
    command.args(arguments).arg("--no-save");
    command
}

#[test]
fn a_dead_ipv6_address_does_not_keep_from_measuring_over_ipv4() {
    for words in [
        &["test", "half", "-n", "64K", "--json"][..],
        &["path", "half", "--no-names", "--no-mtu", "-c", "1", "--json"],
        &["available", "half", "--light", "--json"],
    ] {
        let assert = in_network(words).assert().success();
        let report: Value = serde_json::from_slice(&assert.get_output().stdout).expect("JSON");
        let responder = &report["run"]["responder"];
        assert_eq!(responder["address"], "10.99.0.2", "{words:?}");
        let failed = &responder["failed_addresses"][0];
        assert_eq!(failed["address"], "fd99::dead", "{words:?}");
        let reason = failed["reason"].as_str().expect("a text");
        assert!(reason.starts_with("no answer in "), "{words:?}: {reason}");
    }
    let assert = in_network(&["test", "half", "-n", "64K"]).assert().success();
    let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    assert!(text.contains("\naddress         10.99.0.2; fd99::dead: no answer in "), "{text}");
}

#[test]
fn a_link_local_address_is_measured_over_the_interface_that_it_names() {
    for words in [
        &["test", "fe80::99%lh0", "-n", "64K"][..],
        &["test", "fe80::99", "--bind-dev", "lh0", "-u", "-t", "100ms"],
        &["path", "[fe80::99%lh0]:5201", "--no-names", "--no-mtu", "-c", "1"],
        &["available", "fe80::99%lh0", "--light"],
    ] {
        let assert = in_network(words).arg("--json").assert().success();
        let report: Value = serde_json::from_slice(&assert.get_output().stdout).expect("JSON");
        assert_eq!(report["run"]["responder"]["address"], "fe80::99", "{words:?}");
        assert_eq!(report["observation"]["missing"].as_array(), None, "{words:?}");
    }
    let assert = in_network(&["test", "fe80::99"]).assert().code(2);
    let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(text.contains("interfaces with link-local addresses: lh0"), "{text}");
}

#[test]
fn an_address_family_can_be_required_and_the_other_is_named_as_remedy() {
    let assert = in_network(&["test", "half", "-6"]).assert().code(3);
    let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(text.contains("cannot connect to half ([fd99::dead]:5201)"), "{text}");
    assert!(text.contains("hint: use `-4`: the name also has an IPv4 address"), "{text}");
    in_network(&["test", "half", "-4", "-n", "64K"]).assert().success();
}

#[test]
fn a_router_that_prohibits_a_path_is_not_taken_for_a_missing_route() {
    let assert = in_network(&["test", "shut"]).assert().code(3);
    let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(text.contains("administratively prohibited by 10.99.0.2 (ICMP code 13)"), "{text}");
    assert!(text.contains("hint: a firewall or router refuses it: "), "{text}");
}

#[test]
fn if_all_addresses_fail_each_is_named_with_its_reason() {
    let assert = in_network(&["test", "none"]).assert().code(3);
    let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(text.contains("cannot connect to none: none of its 2 addresses gives"), "{text}");
    assert!(text.contains("10.98.0.1:5201: administratively prohibited"), "{text}");
    assert!(text.contains("[fd99::dead]:5201: No route to host"), "{text}");
}
