//! One-way delays and losses of a known path, by the queueing disciplines of Linux. Needs root.
//!
//! Both ends have the clock of the guest. Only in a lab the program knows this; here it believes what
//! the kernel says of the clock, which a test can change.

use crate::lab_report::{explain, number};
use longhaul_bench::bench_lab::wait_until_listening;
use longhaul_bench::testbed::TestNamespace;
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::Duration;
use xtask::program_runner::{self, ChildGuard, capture_stdout};

crate::virtual_tests!(
    one_way_delays_are_those_of_the_links_within_the_stated_error,
    clocks_that_are_not_synchronised_have_no_delays_but_their_variation,
    losses_are_found_in_their_direction,
    a_clock_that_is_set_changes_no_round_trip,
);

/// The maximum error of the timestamps, in ms: computing takes no time here.
const ERROR_MS: f64 = 0.1;
const LIMIT: Duration = Duration::from_secs(300);

/// Sets the kernel's state of the clock as chrony does: synchronised, with a maximum error of 1 ms.
const SYNCHRONISE: &str = "
import ctypes
class Timex(ctypes.Structure):
    _fields_ = [('modes', ctypes.c_uint), ('offset', ctypes.c_long), ('freq', ctypes.c_long),
                ('maxerror', ctypes.c_long), ('esterror', ctypes.c_long), ('status', ctypes.c_int),
                ('rest', ctypes.c_byte * 256)]
STATUS, MAXERROR = 0x10, 0x4
state = Timex(modes=STATUS | MAXERROR, maxerror=1000, status=0)
assert ctypes.CDLL(None).adjtimex(ctypes.byref(state)) >= 0
";

/// Two hosts with a router between them, and a reflector that counts at the far one.
struct ReflectedPath {
    near: TestNamespace,
    _router: TestNamespace,
    _far: TestNamespace,
    longhaul: String,
    _server: ChildGuard,
}

pub const FAR_ADDRESS: &str = "10.77.2.1";

pub fn command_in(namespace: &TestNamespace, words: &[&str]) -> Command {
    let enter = namespace.enter();
    let mut command = Command::new(&enter[0]);
    command.args(&enter[1..]).args(words);
    command
}

pub fn run(command: &mut Command) -> String {
    capture_stdout(command, LIMIT).expect("the command succeeds")
}

/// Runs commands of words without spaces, each on a line.
pub fn run_lines(namespace: &TestNamespace, lines: &str) {
    for line in lines.lines() {
        run(&mut command_in(namespace, &line.split(' ').collect::<Vec<_>>()));
    }
}

/// Connects a host to the router: the host has the address 1 of the network, the router 2. The
/// router sends to the host through this queueing discipline, which may delay packets: a host stamps
/// its own behind its queue.
pub fn connect_host(router: &TestNamespace, host: &TestNamespace, network: &str, discipline: &str) {
    let (router_pid, host_pid) = (router.pid(), host.pid());
    let pair = format!(
        "ip link add to-{network} netns {router_pid} type veth peer name lh0 netns {host_pid}"
    );
    let words: Vec<&str> = pair.split(' ').collect();
    run(Command::new(words[0]).args(&words[1..]));
    run_lines(
        router,
        &format!(
            "ip address add {network}.2/24 dev to-{network}\nip link set to-{network} up\n\
             tc qdisc add dev to-{network} root {discipline}"
        ),
    );
    run_lines(
        host,
        &format!(
            "ip address add {network}.1/24 dev lh0\nip link set lh0 up\n\
             ip route add default via {network}.2"
        ),
    );
}

impl ReflectedPath {
    /// Sets up a path whose directions have these options of netem.
    fn set_up(forward: &str, reverse: &str) -> ReflectedPath {
        let [near, router, far] = [(); 3].map(|()| TestNamespace::new().expect("a namespace"));
        connect_host(&router, &near, "10.77.1", &format!("netem {reverse}"));
        connect_host(&router, &far, "10.77.2", &format!("netem {forward}"));
        run_lines(&router, "sysctl --quiet --write net.ipv4.ip_forward=1");
        let longhaul = program_runner::build_longhaul_for_tests().expect("the program builds");
        let longhaul = longhaul.to_str().expect("UTF-8").to_owned();
        let serve = [&longhaul, "serve", "--anonymous", "--stamp", "--stamp-stateful"];
        let mut server = command_in(&far, &serve);
        let server = server.stderr(Stdio::null()).spawn().expect("the server starts");
        wait_until_listening(far.pid()).expect("the server listens");
        ReflectedPath { near, _router: router, _far: far, longhaul, _server: ChildGuard(server) }
    }

    /// Returns the report of 400 packets in 10 s.
    fn measure(&self) -> Value {
        // Or the first packet would wait for an answer of ARP.
        run_lines(&self.near, &format!("ping -q -c 9 -i 0.2 {FAR_ADDRESS}"));
        let words = [&self.longhaul, "latency", FAR_ADDRESS];
        let options = ["-c", "400", "-i", "25ms", "--no-save", "--quiet", "--json"];
        let mut command = command_in(&self.near, &[&words[..], &options].concat());
        serde_json::from_str(&run(&mut command)).expect("a report")
    }
}

fn assert_ms(what: &Value, expected_ms: f64, report: &Value) {
    let value = number(what) / 1e6;
    assert!((value - expected_ms).abs() <= ERROR_MS, "{value} ms: {}", explain(report));
}

fn one_way_delays_are_those_of_the_links_within_the_stated_error() {
    run(Command::new("python3").args(["-c", SYNCHRONISE]));
    let path = ReflectedPath::set_up("delay 30ms", "delay 10ms");
    let report = path.measure();
    let analysis = &report["analysis"];
    assert_eq!(analysis["one_way_refused"], Value::Null, "{}", explain(&report));
    for (direction, expected_ms) in [("forward", 30.0), ("reverse", 10.0)] {
        let found = &analysis[direction];
        for quantile in ["min_ns", "p50_ns", "max_ns"] {
            assert_ms(&found["delay"][quantile], expected_ms, &report);
        }
        // 1 ms of each end, which the kernel lets grow by 0.5 ms a second.
        let error = number(&found["delay_error_ns"]) / 1e6;
        assert!((10.0..16.0).contains(&error), "{error} ms: {}", explain(&report));
        assert_ms(&found["variation"]["max_ns"], 0.0, &report);
    }
    assert_ms(&analysis["rtt"]["p50_ns"], 40.0, &report);
    // The clock is one; the path looks like an offset of half its asymmetry.
    assert_ms(&analysis["clocks"]["offset_ns"], 10.0, &report);
    assert_ms(&analysis["clocks"]["offset_error_ns"], 20.0, &report);
    assert!(number(&analysis["clocks"]["skew_ppm"]).abs() < 1.0, "{}", explain(&report));
}

fn clocks_that_are_not_synchronised_have_no_delays_but_their_variation() {
    let path = ReflectedPath::set_up("delay 30ms 4ms", "delay 10ms");
    let report = path.measure();
    let analysis = &report["analysis"];
    let reason = analysis["one_way_refused"].as_str().unwrap_or_default();
    assert!(reason.contains("not synchronised"), "{}", explain(&report));
    assert_eq!(analysis["forward"]["delay"], Value::Null, "{}", explain(&report));
    // Delays are even over 26 to 34 ms.
    let spread = number(&analysis["forward"]["variation"]["max_ns"]) / 1e6;
    assert!((7.0..=8.0 + ERROR_MS).contains(&spread), "{spread} ms: {}", explain(&report));
    assert_ms(&analysis["reverse"]["variation"]["max_ns"], 0.0, &report);
}

fn losses_are_found_in_their_direction() {
    let path = ReflectedPath::set_up("delay 5ms loss 10%", "delay 5ms loss 3% duplicate 5%");
    let report = path.measure();
    let counts = |direction: &str| {
        let counts = &report["analysis"][direction]["counts"];
        ["sent", "lost", "duplicates"].map(|name| number(&counts[name]))
    };
    let [sent, lost, copies] = counts("forward");
    // Five standard deviations of 10 % of 400 are 30.
    assert!((10.0..=70.0).contains(&lost) && copies == 0.0, "{}", explain(&report));
    let [answered, lost_back, copies_back] = counts("reverse");
    assert!((sent - lost - answered).abs() < 0.5, "{}", explain(&report));
    assert!((1.0..=32.0).contains(&lost_back), "{}", explain(&report));
    assert!((1.0..=50.0).contains(&copies_back), "{}", explain(&report));
}

fn a_clock_that_is_set_changes_no_round_trip() {
    let path = ReflectedPath::set_up("delay 30ms", "delay 10ms");
    let mut step = Command::new("sh");
    let step = step.args(["-c", "sleep 5; date -s '1 hour ago'"]).stdout(Stdio::null());
    let mut step = ChildGuard(step.spawn().expect("sh"));
    let report = path.measure();
    step.0.wait().expect("its end");
    let analysis = &report["analysis"];
    assert_ms(&analysis["rtt"]["min_ns"], 40.0, &report);
    assert_ms(&analysis["rtt"]["p99_ns"], 40.0, &report);
    let reason = analysis["one_way_refused"].as_str().unwrap_or_default();
    assert!(reason.contains("was set"), "{}", explain(&report));
    let step_s = number(&report["observation"]["clock_step_ns"]) / 1e9;
    assert!((step_s + 3600.0).abs() < 10.0, "{step_s} s");
}
