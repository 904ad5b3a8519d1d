//! Responsiveness by HTTP/2 on a path whose bottleneck is a queueing discipline of Linux. Needs root.

use crate::lab_report::{explain, number};
use crate::latency::{FAR_ADDRESS, command_in, connect_host, run, run_lines};
use longhaul_bench::bench_lab::wait_until_listening;
use longhaul_bench::testbed::TestNamespace;
use serde_json::Value;
use std::process::Stdio;
use xtask::program_runner::{self, ChildGuard};

crate::virtual_tests!(
    a_queue_of_one_second_leaves_few_round_trips_per_minute,
    a_managed_queue_leaves_many_round_trips_per_minute,
);

/// The bottleneck: 10 Mbit/s with a queue of 1 s.
const BOTTLENECK: &str = "handle 1: tbf rate 10mbit burst 3000 limit 1250000";

/// Returns the report on a path with this bottleneck in both directions, in whose queue `inner` is the
/// discipline, if there is one.
fn measure(inner: Option<&str>) -> Value {
    let [near, router, far] = [(); 3].map(|()| TestNamespace::new().expect("a namespace"));
    for (host, network) in [(&near, "10.77.1"), (&far, "10.77.2")] {
        connect_host(&router, host, network, BOTTLENECK);
        if let Some(inner) = inner {
            run_lines(&router, &format!("tc qdisc add dev to-{network} parent 1:1 {inner}"));
        }
    }
    run_lines(&router, "sysctl --quiet --write net.ipv4.ip_forward=1");
    let longhaul = program_runner::build_longhaul_for_tests().expect("the program builds");
    let longhaul = longhaul.to_str().expect("UTF-8");
    let mut server = command_in(&far, &[longhaul, "serve", "--anonymous", "--rpm"]);
    let _server = ChildGuard(server.stderr(Stdio::null()).spawn().expect("the server starts"));
    wait_until_listening(far.pid()).expect("the server listens");
    let options = ["--rpm", "--time=20s", "--no-save", "--quiet", "--json"];
    let words = [&[longhaul, "load", FAR_ADDRESS][..], &options].concat();
    serde_json::from_str(&run(&mut command_in(&near, &words))).expect("a report")
}

fn a_queue_of_one_second_leaves_few_round_trips_per_minute() {
    let report = measure(None);
    for direction in ["download", "upload"] {
        let found = &report["analysis"][direction];
        // 60 s / 1 s; on loaded connections what was lost delays requests further.
        let rpm = number(&found["round_trips_per_minute"]);
        assert!((30.0..=70.0).contains(&rpm), "{rpm}: {}", explain(&report));
        // A loss-based sender keeps a queue that it has filled between 70 and 100 % full.
        let tcp_ms = number(&found["tcp_us"]) / 1e3;
        assert!((700.0..=1050.0).contains(&tcp_ms), "{tcp_ms} ms: {}", explain(&report));
        // Data behind a lost packet arrive at once, in another interval than they were sent.
        let rate = number(&found["capacity_bps"]);
        assert!((8e6..11.5e6).contains(&rate), "{rate}: {}", explain(&report));
    }
}

fn a_managed_queue_leaves_many_round_trips_per_minute() {
    let report = measure(Some("fq_codel"));
    for direction in ["download", "upload"] {
        let rpm = number(&report["analysis"][direction]["round_trips_per_minute"]);
        assert!(rpm > 1000.0, "{rpm}: {}", explain(&report));
    }
}
