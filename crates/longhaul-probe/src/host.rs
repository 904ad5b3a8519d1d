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

mod host_settings;
mod live_socket;
mod settings_change;
mod settings_journal;

pub use host_settings::is_writable;
pub use settings_change::{apply_settings, revert_settings};

use live_socket::LoopbackPair;
use longhaul_model::report::v1::host::AuditObservation;
use longhaul_model::units::Rate;
use longhaul_sys::host::interrupts::{self, InterruptLine};
use longhaul_sys::host::kernel_route::{self, KernelRoute};
use longhaul_sys::host::{self, ethtool, network_interface, pci, qdisc};
use longhaul_sys::netlink;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

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
    let interface = select_interface(&mut notes, interface, towards);
    if let Some(name) = interface.as_deref() {
        read_interface(&mut notes, name);
    }
    read_machine(&mut notes);
    let pair = LoopbackPair::connect(|_| Ok(()));
    read_conntrack(&mut notes, pair.is_ok());
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

/// Returns the given interface, otherwise that of the route. If there is none, returns `None` and
/// records the reason under `interface.name`.
fn select_interface(
    notes: &mut ReadingsBuilder,
    interface: Option<&str>,
    towards: Option<IpAddr>,
) -> Option<String> {
    let route = towards.map_or_else(kernel_route::query_default_route, kernel_route::query_route);
    let by_route = route.as_ref().ok().and_then(|route| route.interface.clone());
    if let Some(route) = notes.check("route.interface", route) {
        describe_route(notes, route);
    }
    let Some(name) = interface.map(str::to_owned).or(by_route) else {
        notes.missing("interface.name", "no interface was given, and no route leads to one");
        return None;
    };
    match netlink::interface_index(&name) {
        Ok(_) => Some(name),
        Err(error) => {
            let why = format!("interface {name} does not exist: {}", error_text(&error));
            notes.missing("interface.name", why);
            None
        }
    }
}

fn describe_route(notes: &mut ReadingsBuilder, route: KernelRoute) {
    notes.put_optional("route.interface", route.interface);
    notes.put_optional("route.gateway", route.gateway);
    notes.put_optional("route.source", route.source);
    notes.put_optional("route.mtu", route.mtu_bytes);
    notes.put_optional("route.window", route.window_bytes);
    notes.put_optional("route.initcwnd", route.initial_window_segments);
    notes.put_optional("route.initrwnd", route.initial_receive_window_segments);
    notes.put_optional("route.congestion_control", route.congestion_control);
}

/// The readings of a host, collected while it is read.
#[derive(Debug, Default)]
struct ReadingsBuilder {
    pub readings: BTreeMap<String, String>,
    pub unread: BTreeMap<String, String>,
}

impl ReadingsBuilder {
    pub fn put(&mut self, name: &str, value: impl Display) {
        self.readings.insert(name.to_owned(), value.to_string());
    }

    /// Adds a value if there is one; its absence has no meaning.
    pub fn put_optional(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    /// Adds a value that should be present, or `why` it is missing.
    pub fn put_or_missing(&mut self, name: &str, value: Option<impl Display>, why: &str) {
        match value {
            Some(value) => self.put(name, value),
            None => self.missing(name, why),
        }
    }

    pub fn missing(&mut self, name: &str, why: impl Into<String>) {
        self.unread.insert(name.to_owned(), why.into());
    }

    /// Adds a value, or the error as the reason why it is missing.
    pub fn put_result(&mut self, name: &str, value: io::Result<impl Display>) {
        if let Some(value) = self.check(name, value) {
            self.put(name, value);
        }
    }

    /// Returns a value, or records the error as the reason why `name` is missing.
    pub fn check<T>(&mut self, name: &str, value: io::Result<T>) -> Option<T> {
        value.map_err(|error| self.missing(name, error_text(&error))).ok()
    }
}

fn switch_text(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// Returns the system's text for an error, without its number.
fn error_text(error: &io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or_default();
    if error.kind() == io::ErrorKind::Unsupported {
        return format!("the driver does not report it ({words})");
    }
    words.to_owned()
}

/// Settings were not applied or reverted, or not completely.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// longhaul does not write a setting of this name.
    #[error("cannot set {name}: longhaul does not write this setting")]
    NotWritable { name: String },
    /// The setting belongs to an interface, but none is given.
    #[error("cannot set {name}: no interface given or found")]
    NoInterface { name: String },
    /// There is no journal.
    #[error("nothing to revert: no journal at {}", path.display())]
    NothingToRevert { path: PathBuf },
    /// The journal cannot be read by this program.
    #[error("cannot read the journal {}: {why}", path.display())]
    Unreadable { path: PathBuf, why: String },
    /// The journal could not be written or removed.
    #[error("cannot {what} {}", path.display())]
    Journal {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Another apply or revert did not finish in time.
    #[error("cannot lock {}: another apply or revert has held it for {waited_s} s", path.display())]
    Busy { path: PathBuf, waited_s: u64 },
    /// The journal is from another network namespace, to which its settings apply.
    #[error(
        "cannot use the journal {}: it belongs to network namespace {theirs}, this one is {ours}",
        path.display()
    )]
    OtherNamespace { path: PathBuf, theirs: String, ours: String },
}

impl HostError {
    fn nothing_to_revert(path: &Path) -> HostError {
        HostError::NothingToRevert { path: path.to_owned() }
    }

    /// Returns advice on what to do next, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            HostError::NotWritable { .. } => "set it manually; longhaul cannot revert it then",
            HostError::NoInterface { .. } => "name the interface: `--interface NAME`",
            HostError::NothingToRevert { .. } => {
                "check that settings were applied on this host and are not reverted yet"
            }
            HostError::Unreadable { .. } => {
                "read it, restore the earlier values in it manually, then remove it"
            }
            HostError::Journal { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    "run as root, or choose a writable folder"
                }
                io::ErrorKind::StorageFull => "free space on that disk, then run it again",
                _ => return None,
            },
            HostError::Busy { .. } => "wait for it to end, then run this again",
            HostError::OtherNamespace { .. } => {
                "revert in the namespace where it was applied; if that namespace is gone, its \
                 settings are gone too: remove the journal"
            }
        })
    }

    /// The exit code of the program: 2 for usage, 5 for privilege or kernel.
    pub fn exit_code(&self) -> u8 {
        match self {
            HostError::NotWritable { .. }
            | HostError::NoInterface { .. }
            | HostError::NothingToRevert { .. } => 2,
            _ => 5,
        }
    }
}

/// Reads everything about the interface `name`, which exists.
fn read_interface(notes: &mut ReadingsBuilder, name: &str) {
    notes.put("interface.name", name);
    read_device(notes, name);
    read_driver_settings(notes, name);
    read_qdisc(notes, name);
    read_bus(notes, name);
}

fn read_device(notes: &mut ReadingsBuilder, name: &str) {
    let mtu = network_interface::mtu_bytes(name);
    notes.put_or_missing("interface.mtu", mtu, "the kernel does not report it");
    let queue = network_interface::transmit_queue_packets(name);
    notes.put_result("interface.txqueuelen", queue);
    let carrier = network_interface::has_carrier(name).map(switch_text);
    notes.put_result("interface.carrier", carrier);
    let speed = ethtool::link_speed(name).map(Rate::as_bps);
    let why = "the driver reports no speed, as usual for virtual devices";
    notes.put_or_missing("interface.speed_bps", speed, why);
}

fn read_driver_settings(notes: &mut ReadingsBuilder, name: &str) {
    for setting in ethtool::READINGS {
        notes.put_result(&format!("interface.{}", setting.name), setting.query(name));
    }
}

fn read_qdisc(notes: &mut ReadingsBuilder, name: &str) {
    let Some(found) = notes.check("interface.qdisc", qdisc::query_qdisc(name)) else {
        return;
    };
    let why = "the device is down; it has no queueing discipline until it is up";
    notes.put_or_missing("interface.qdisc", found.root, why);
    let leaves = (!found.leaves.is_empty()).then(|| found.leaves.join(" "));
    notes.put_optional("interface.qdisc.leaves", leaves);
    notes.put_optional("interface.qdisc.maxrate_bps", found.flow_max.map(Rate::as_bps));
}

fn read_bus(notes: &mut ReadingsBuilder, name: &str) {
    let driver = notes.check("interface.driver", ethtool::query_driver(name)).unwrap_or_default();
    let known = |text: &String| (!text.is_empty()).then(|| text.clone());
    notes.put_optional("interface.driver", known(&driver.name));
    notes.put_optional("interface.firmware", known(&driver.firmware));
    notes.put_optional("interface.bus", known(&driver.bus));
    let address = driver.bus;
    let link = pci::read_pcie_link(&address);
    let why = "the device is not on a PCIe link, as usual for virtual devices";
    notes.put_or_missing("interface.pci.speed_gtps", link.speed_gtps, why);
    notes.put_optional("interface.pci.speed_gtps_max", link.speed_gtps_max);
    notes.put_or_missing("interface.pci.width", link.width_lanes, why);
    notes.put_optional("interface.pci.width_max", link.width_lanes_max);
    notes.put_optional("interface.numa_node", pci::numa_node(&address));
    read_interrupts(notes, name, &address);
}

fn read_interrupts(notes: &mut ReadingsBuilder, name: &str, address: &str) {
    let Some(lines) = notes.check("interface.irq.count", interrupts::read_proc_interrupts()) else {
        return;
    };
    let mut own = pci::list_msi_interrupts(address);
    own.retain(|number| lines.contains_key(number));
    if own.is_empty() {
        own = interrupts::find_interface_interrupts(&lines, name);
    }
    if own.is_empty() {
        notes.missing("interface.irq.count", "the device has no interrupts of its own");
    } else {
        put_interrupts(notes, &lines, &own);
    }
}

/// Adds the distribution of a device's interrupts over the cores.
fn put_interrupts(notes: &mut ReadingsBuilder, lines: &BTreeMap<u32, InterruptLine>, own: &[u32]) {
    let cores: BTreeSet<u32> =
        own.iter().filter_map(|&number| interrupts::interrupt_cores(number)).flatten().collect();
    let mut served: BTreeMap<u32, u64> = BTreeMap::new();
    for (&core, &count) in own.iter().flat_map(|number| &lines[number].counts) {
        let sum = served.entry(core).or_default();
        *sum = sum.saturating_add(count);
    }
    let all: u64 = served.values().fold(0, |sum, &count| sum.saturating_add(count));
    let most = served.values().copied().max().unwrap_or(0);
    let cores: Vec<u32> = cores.into_iter().collect();
    notes.put("interface.irq.count", own.len());
    notes.put("interface.irq.cores", cores.len());
    notes.put("interface.irq.cores_list", host::format_core_list(&cores));
    // There may have been no interrupts yet.
    let share = (all > 0).then(|| format!("{:.3}", most as f64 / all as f64));
    notes.put_optional("interface.irq.busiest_ratio", share);
}

/// Reads everything except routes, interfaces and live sockets.
fn read_machine(notes: &mut ReadingsBuilder) {
    read_sysctls(notes);
    let memory = host::memory_bytes();
    notes.put_or_missing("memory.total", memory, "/proc/meminfo does not contain it");
    read_processors(notes);
    read_clocks(notes);
    read_softnet(notes);
    let kinds = pci::iommu_kinds().map(|kinds| match kinds.as_slice() {
        [] => "off".to_owned(),
        kinds => kinds.join(" "),
    });
    notes.put_or_missing("iommu", kinds, "the kernel lists no IOMMU groups");
}

fn read_sysctls(notes: &mut ReadingsBuilder) {
    for name in SYSCTLS {
        match host::read_setting_exact(name) {
            Ok(value) => notes.put(name, value),
            // Unknown to this kernel, or hidden in this namespace; the audit does not need it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => notes.missing(name, error_text(&error)),
        }
    }
}

fn read_processors(notes: &mut ReadingsBuilder) {
    notes.put("cpu.online", host::online_cores().len());
    if let Some(model) = notes.check("cpu.model", host::read_cpu_model()) {
        notes.put_optional("cpu.model", model.name);
        notes.put_optional("cpu.hypervisor", model.hypervisor.map(switch_text));
    }
    let governors = host::read_governors().ok().map(|all| format_governors(&all));
    let why = "no core has a frequency governor, as usual for virtual machines";
    notes.put_or_missing("cpu.governor", governors, why);
    let cpu = |file: &str| host::read_kernel_file(format!("/sys/devices/system/cpu/{file}"));
    notes.put_optional("cpu.governors", cpu("cpu0/cpufreq/scaling_available_governors"));
    let why = "no idle driver is in use";
    notes.put_or_missing("cpu.idle_driver", cpu("cpuidle/current_driver"), why);
    let idle_governor =
        cpu("cpuidle/current_governor").or_else(|| cpu("cpuidle/current_governor_ro"));
    notes.put_or_missing("cpu.idle_governor", idle_governor, why);
    notes.put_or_missing("cpu.smt", cpu("smt/control"), "the kernel does not report it");
}

/// Returns one word if all cores agree, otherwise one per core, in their order.
fn format_governors(governors: &[(u32, String)]) -> String {
    let words: Vec<&str> = governors.iter().map(|(_, word)| word.as_str()).collect();
    match words.first() {
        Some(first) if words.iter().all(|word| word == first) => (*first).to_owned(),
        _ => words.join(" "),
    }
}

fn read_clocks(notes: &mut ReadingsBuilder) {
    let clock = |file: &str| {
        host::read_kernel_file(format!("/sys/devices/system/clocksource/clocksource0/{file}"))
    };
    let why = "the kernel does not report it";
    notes.put_or_missing("clock.source", clock("current_clocksource"), why);
    notes.put_optional("clock.sources", clock("available_clocksource"));
    let synchronised = host::is_synchronised().map(switch_text);
    notes.put_result("clock.synchronised", synchronised);
}

fn read_softnet(notes: &mut ReadingsBuilder) {
    match host::read_softnet_stat() {
        Ok(sums) => {
            notes.put("softnet.dropped", sums.dropped_packets);
            notes.put("softnet.processed", sums.processed_packets);
            notes.put("softnet.squeezed", sums.squeezed);
        }
        Err(error) => {
            for name in ["softnet.dropped", "softnet.processed", "softnet.squeezed"] {
                notes.missing(name, error_text(&error));
            }
        }
    }
}

/// Reads whether connections are tracked here. `live`: a connection of this namespace is currently
/// open, which a tracker would count.
fn read_conntrack(notes: &mut ReadingsBuilder, live: bool) {
    let Some(count) = host::read_number("net.netfilter.nf_conntrack_count") else {
        notes.put("conntrack", "off");
        return;
    };
    notes.put("conntrack.count", count);
    notes.put_optional("conntrack.max", host::read_number("net.netfilter.nf_conntrack_max"));
    if count > 0 || live {
        notes.put("conntrack", switch_text(count > 0));
    } else {
        let why = "cannot open a connection here to check whether it is tracked";
        notes.missing("conntrack", why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_has_its_reason() {
        let mut notes = ReadingsBuilder::default();
        notes.put_result("a.tx", Err::<u32, _>(io::Error::from_raw_os_error(95)));
        notes.put_result("b", Ok(7));
        assert_eq!(notes.readings.get("b").map(String::as_str), Some("7"));
        assert_eq!(notes.unread.len(), 1);
        let expect = "the driver does not report it (Operation not supported)";
        assert_eq!(notes.unread["a.tx"], expect);
    }
}

#[cfg(test)]
mod machine_readings_tests {
    use super::*;

    #[test]
    fn governors_are_one_word_where_all_agree() {
        let of = |words: &[&str]| {
            let cores = words.iter().map(|word| (*word).to_owned());
            format_governors(&(0..).zip(cores).collect::<Vec<_>>())
        };
        assert_eq!(of(&["performance", "performance"]), "performance");
        assert_eq!(of(&["performance", "powersave"]), "performance powersave");
    }
}
