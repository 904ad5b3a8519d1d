//! The host data of one end: facts once, and counters as their increase during the run.

use super::run::Shared;
use super::sockets::Addresses;
use longhaul_model::report::v1::observation::{Core, End, Host, Interface};
use longhaul_sys::cycles::Cycles;
use longhaul_sys::host::protocol::{self, Counters};
use longhaul_sys::host::{self, interface, sysctl};
use longhaul_sys::thread::{self, ProcessTimes};
use std::collections::BTreeMap;

/// Settings that affect TCP and have no field of their own.
const SETTINGS: [&str; 13] = [
    "net.core.default_qdisc",
    "net.core.netdev_max_backlog",
    "net.ipv4.tcp_adv_win_scale",
    "net.ipv4.tcp_allowed_congestion_control",
    "net.ipv4.tcp_available_congestion_control",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_window_scaling",
];

/// The counters at the time when payload began to flow.
#[derive(Debug)]
pub(super) struct Baseline {
    process: Option<ProcessTimes>,
    protocol: Counters,
    interface: Counters,
}

impl Baseline {
    pub fn take(interface_name: Option<&str>) -> Baseline {
        Baseline {
            process: thread::process_times().ok(),
            protocol: protocol::read().unwrap_or_default(),
            interface: interface_counters(interface_name),
        }
    }
}

fn interface_counters(name: Option<&str>) -> Counters {
    name.and_then(|name| interface::counters(name).ok())
        .unwrap_or_default()
}

/// Returns the interface of the streams, from the addresses of the first stream.
pub(super) fn interface_of(addresses: Addresses) -> Option<String> {
    let (local, peer) = (addresses.0?, addresses.1?);
    interface::between(local.ip(), peer.ip())
}

/// Returns the results of this end except the streams.
pub(super) fn describe(shared: &Shared, baseline: &Baseline, cores: Vec<Core>) -> End {
    let now = Baseline::take(shared.interface.as_deref());
    let spent = |pick: fn(&ProcessTimes) -> std::time::Duration| {
        let (before, after) = (baseline.process.as_ref()?, now.process.as_ref()?);
        Some(pick(after).saturating_sub(pick(before)).as_micros() as u64)
    };
    let streams = shared.streams.iter();
    End {
        host: host_facts(shared.interface.as_deref()),
        bytes: streams.map(|stream| stream.counters.bytes()).sum(),
        cpu_user_us: spent(|times| times.user),
        cpu_system_us: spent(|times| times.system),
        cycles: shared
            .cycles
            .as_ref()
            .and_then(|count| Cycles::read(count).ok()),
        cores,
        protocol: protocol::growth(&baseline.protocol, &now.protocol),
        interface: protocol::growth(&baseline.interface, &now.interface),
        capture: None,
        program: None,
    }
}

/// Returns the facts about this host and the interface of that name.
pub(crate) fn host_facts(interface_name: Option<&str>) -> Host {
    let sysctl: BTreeMap<String, String> = SETTINGS
        .iter()
        .filter_map(|&name| Some((name.to_owned(), sysctl::read(name)?)))
        .collect();
    Host {
        name: host::name(),
        kernel: host::kernel(),
        cores: std::thread::available_parallelism().map_or(0, |count| count.get() as u32),
        tcp_rmem_bytes: sysctl::triple("net.ipv4.tcp_rmem"),
        tcp_wmem_bytes: sysctl::triple("net.ipv4.tcp_wmem"),
        rmem_max_bytes: sysctl::number("net.core.rmem_max"),
        wmem_max_bytes: sysctl::number("net.core.wmem_max"),
        tcp_mem_bytes: sysctl::tcp_memory_bytes(),
        congestion_control: sysctl::read("net.ipv4.tcp_congestion_control"),
        sysctl,
        interface: interface_name.map(|name| Interface {
            name: name.to_owned(),
            mtu_bytes: interface::mtu_bytes(name),
            speed_bps: interface::speed(name).map(longhaul_model::units::Rate::as_bps),
        }),
    }
}
