//! The host data of one end: facts once, and counters as their increase during the run.

use super::end_run::EngineShared;
use super::sockets::StreamAddresses;
use longhaul_model::report::v1::observation::{
    CoreUsage, EndObservation, HostFacts, HostInterface,
};
use longhaul_sys::cycle_counter::CycleCounter;
use longhaul_sys::host::{self, KernelCounters, ethtool, network_interface};
use longhaul_sys::thread_times::{self, ProcessTimes};
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
pub(super) struct CounterBaseline {
    process: Option<ProcessTimes>,
    protocol: KernelCounters,
    interface: KernelCounters,
}

impl CounterBaseline {
    pub fn take(interface_name: Option<&str>) -> CounterBaseline {
        CounterBaseline {
            process: thread_times::process_times().ok(),
            protocol: host::read_protocol_counters().unwrap_or_default(),
            interface: read_interface_counters(interface_name),
        }
    }
}

fn read_interface_counters(name: Option<&str>) -> KernelCounters {
    name.and_then(|name| network_interface::read_net_dev(name).ok()).unwrap_or_default()
}

/// Returns the interface of the streams, from the addresses of the first stream.
pub(super) fn find_interface(addresses: StreamAddresses) -> Option<String> {
    let (local, peer) = (addresses.0?, addresses.1?);
    network_interface::interface_between(local.ip(), peer.ip())
}

/// Returns the results of this end except the streams.
pub(super) fn describe_end(
    shared: &EngineShared,
    baseline: &CounterBaseline,
    cores: Vec<CoreUsage>,
) -> EndObservation {
    let now = CounterBaseline::take(shared.interface.as_deref());
    let spent = |pick: fn(&ProcessTimes) -> std::time::Duration| {
        let (before, after) = (baseline.process.as_ref()?, now.process.as_ref()?);
        Some(pick(after).saturating_sub(pick(before)).as_micros() as u64)
    };
    let streams = shared.streams.iter();
    EndObservation {
        host: read_host_facts(shared.interface.as_deref()),
        bytes: streams.map(|stream| stream.counters.bytes()).sum(),
        cpu_user_us: spent(|times| times.user),
        cpu_system_us: spent(|times| times.system),
        cycles: shared.cycles.as_ref().and_then(|count| CycleCounter::read(count).ok()),
        cores,
        protocol: host::counter_growth(&baseline.protocol, &now.protocol),
        interface: host::counter_growth(&baseline.interface, &now.interface),
        capture: None,
        header_capture: None,
        program: None,
    }
}

/// Returns the facts about this host and the interface of that name.
pub(crate) fn read_host_facts(interface_name: Option<&str>) -> HostFacts {
    let sysctl: BTreeMap<String, String> = SETTINGS
        .iter()
        .filter_map(|&name| Some((name.to_owned(), host::read_setting(name)?)))
        .collect();
    HostFacts {
        name: host::read_host_name(),
        kernel: host::read_kernel_version(),
        cores: std::thread::available_parallelism().map_or(0, |count| count.get() as u32),
        tcp_rmem_bytes: host::read_triple("net.ipv4.tcp_rmem"),
        tcp_wmem_bytes: host::read_triple("net.ipv4.tcp_wmem"),
        rmem_max_bytes: host::read_number("net.core.rmem_max"),
        wmem_max_bytes: host::read_number("net.core.wmem_max"),
        tcp_mem_bytes: host::tcp_memory_bytes(),
        congestion_control: host::read_setting("net.ipv4.tcp_congestion_control"),
        sysctl,
        interface: interface_name.map(|name| HostInterface {
            name: name.to_owned(),
            mtu_bytes: network_interface::mtu_bytes(name),
            speed_bps: ethtool::link_speed(name).map(longhaul_model::units::Rate::as_bps),
        }),
    }
}
