//! The lab's truth, proved by iperf3 and ping.

use crate::harness::{Lab, Test};
use longhaul_lab::runtime::Backend;

pub const TESTS: [Test; 1] = [(
    "a command at the near host reaches the far one by name",
    a_command_reaches_the_far_host,
)];

const PLAIN: Lab<'_> = Lab {
    path: "plain.toml",
    sets: &[],
    far: "sleep 60",
    far_port: None,
    backend: Backend::Tun,
    unprivileged: false,
};

fn a_command_reaches_the_far_host() {
    let outcome = PLAIN.run(&["ping", "-n", "-c", "3", "-i", "0.2", "far"]);
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.out, outcome.err);
}
