//! This host's settings: reading them, trying them on a live socket, changing and reverting them.
//!
//! [`observe_host`] reads; [`apply_settings`] writes and keeps a journal; [`revert_settings`] restores what the journal
//! holds. What the readings mean for a path is judged elsewhere.
//!
//! # Readings
//!
//! Values are plain: numbers without units, or words; switches are `on` and `off`. A value that
//! could not be read is listed in `unread` under the same name, with the reason. A setting that
//! this kernel does not have is in neither map. Interface readings are of the requested interface,
//! or of the one that the route uses.
//!
//! | name | value |
//! | --- | --- |
//! | `net.core.*`, `net.ipv4.*` | sysctls by their own name, exactly as the kernel gives them (triples with tabs), without the final newline; those of [`SYSCTLS`] |
//! | `memory.total` | bytes |
//! | `route.interface`, `route.gateway`, `route.source` | of the route towards the peer, or the default route |
//! | `route.mtu`, `route.window`, `route.initcwnd`, `route.initrwnd`, `route.congestion_control` | attributes of the route; bytes, bytes, segments, segments, name; only if set |
//! | `interface.name`, `interface.driver`, `interface.firmware`, `interface.bus` | words |
//! | `interface.carrier` | `on`, `off` |
//! | `interface.mtu` | bytes |
//! | `interface.txqueuelen` | packets |
//! | `interface.speed_bps` | bit/s, as reported by the driver |
//! | `interface.feature.tso`, `.gso`, `.gro`, `.lro`, `.tx_checksum`, `.rx_checksum`, `.scatter_gather` | `on`, `off` |
//! | `interface.ring.rx`, `.rx_max`, `.tx`, `.tx_max` | descriptors |
//! | `interface.coalesce.rx_usecs`, `.rx_frames`, `.tx_usecs`, `.tx_frames` | µs, frames |
//! | `interface.coalesce.adaptive_rx`, `.adaptive_tx` | `on`, `off` |
//! | `interface.channels.rx`, `.tx`, `.combined`, and each with `_max` | queues |
//! | `interface.pause.autoneg`, `.rx`, `.tx` | `on`, `off` |
//! | `interface.qdisc` | kind of the root queueing discipline: `fq`, `mq`, `noqueue` |
//! | `interface.qdisc.leaves` | kinds below the root, each once, separated by blanks; only if there are any |
//! | `interface.qdisc.maxrate_bps` | bit/s for each flow (fq); only if set |
//! | `interface.irq.count` | interrupts of the device |
//! | `interface.irq.cores` | number of cores to which the interrupts may go, and `interface.irq.cores_list`, such as `0-3,8` |
//! | `interface.irq.busiest_ratio` | share of the device's interrupts that its busiest core has served since boot, 0 to 1 |
//! | `interface.numa_node` | number; only on a machine with NUMA nodes |
//! | `interface.pci.speed_gtps`, `.speed_gtps_max`, `.width`, `.width_max` | GT/s with decimals, lanes; `_max` is the device's maximum |
//! | `cpu.model`, `cpu.online` | words, number of cores |
//! | `cpu.governor`, `cpu.governors` | current (one word, or one for each core if they differ), and available |
//! | `cpu.idle_driver`, `cpu.idle_governor` | words |
//! | `cpu.smt` | `on`, `off`, or the kernel's word |
//! | `cpu.hypervisor` | `on` in a virtual machine, `off` |
//! | `clock.source`, `clock.sources` | current, available |
//! | `clock.synchronised` | `on`, `off`, according to the kernel |
//! | `iommu` | `off`, or the kinds of its groups: `DMA`, `DMA-FQ`, `identity` |
//! | `conntrack` | `on` if this network namespace tracks connections (tested with a live one), `off` |
//! | `conntrack.count`, `conntrack.max` | connections |
//! | `softnet.processed`, `softnet.dropped`, `softnet.squeezed` | packets, packets, times, of all cores since boot |
//!
//! # Effective values
//!
//! The values are read from a loopback connection. `asked` and `got` are plain values. If the
//! connection cannot be made (loopback is down), `unread` gives the reason under `effective`.
//!
//! | what | asked | got |
//! | --- | --- | --- |
//! | `send_buffer` | bytes | granted: half of what Linux stores |
//! | `receive_buffer` | bytes | granted: half of what Linux stores |
//! | `window_scale` | bytes of the wanted window | maximum window that the negotiated scale can express |
//! | `receive_window` | bytes | maximum window that was advertised with that receive buffer while everything was read at once, up to the requested size; no entry if it was still growing after half a second |
//! | `congestion_control` | a name; one entry for each available | the current name, or the reason; root may set all, others those of `net.ipv4.tcp_allowed_congestion_control` |
//! | `pacing` | bit/s | bit/s of the kernel's ceiling, or the reason |
//!
//! # Writable settings
//!
//! Sysctls `net.core.*` and `net.ipv4.tcp_*`, `interface.mtu`, `interface.txqueuelen`,
//! `interface.ring.rx`, `interface.ring.tx`, `cpu.governor`; see [`is_writable`].

mod host_error;
mod host_settings;
mod interface_readings;
mod interface_route;
mod live_socket;
mod machine_readings;
mod readings_builder;
mod settings_change;
mod settings_journal;

pub use host_error::HostError;
pub use host_settings::is_writable;
pub use settings_change::{apply_settings, revert_settings};

use live_socket::LoopbackPair;
use longhaul_model::report::v1::host::AuditObservation;
use readings_builder::{ReadingsBuilder, error_text};
use std::net::IpAddr;

/// The settings that are read if the kernel has them.
pub const SYSCTLS: [&str; 35] = [
    "net.core.default_qdisc",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.core.optmem_max",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.ip_no_pmtu_disc",
    "net.ipv4.tcp_adv_win_scale",
    "net.ipv4.tcp_allowed_congestion_control",
    "net.ipv4.tcp_available_congestion_control",
    "net.ipv4.tcp_base_mss",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_dsack",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_min_tso_segs",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_pacing_ca_ratio",
    "net.ipv4.tcp_pacing_ss_ratio",
    "net.ipv4.tcp_recovery",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_shrink_window",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_tso_win_divisor",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
];

/// The buffer size that is tried on the live socket if the caller has no path in mind: 16 MiB.
const DEFAULT_BUFFER_BYTES: u64 = 16 << 20;

/// Reads this host, for the named interface, otherwise the one towards the peer, otherwise the one
/// of the default route. Never fails: values that cannot be read are reported as unread.
pub fn observe_host(interface: Option<&str>, towards: Option<IpAddr>) -> AuditObservation {
    observe_host_with_buffer(interface, towards, DEFAULT_BUFFER_BYTES)
}

/// Like [`observe_host`], but tries buffers of `wanted_buffer_bytes` on the live socket.
pub fn observe_host_with_buffer(
    interface: Option<&str>,
    towards: Option<IpAddr>,
    wanted_buffer_bytes: u64,
) -> AuditObservation {
    let mut notes = ReadingsBuilder::default();
    let interface = interface_route::select_interface(&mut notes, interface, towards);
    if let Some(name) = interface.as_deref() {
        interface_readings::read_interface(&mut notes, name);
    }
    machine_readings::read_machine(&mut notes);
    let pair = LoopbackPair::connect(|_| Ok(()));
    machine_readings::read_conntrack(&mut notes, pair.is_ok());
    let mut effective = Vec::new();
    match pair {
        Ok(pair) => effective = live_socket::test_settings(&pair, wanted_buffer_bytes),
        Err(error) => notes.missing("effective", error_text(&error)),
    }
    AuditObservation {
        host: crate::engine::read_host_facts(interface.as_deref()),
        effective,
        readings: notes.readings,
        unread: notes.unread,
        changes: Vec::new(),
        trials: Vec::new(),
    }
}
