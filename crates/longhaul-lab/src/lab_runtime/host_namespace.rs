//! A host of the path: a network namespace with the device `wan0`, and a mount namespace.

use super::EnginePort;
use crate::emulation_engine::LabHost;
use crate::lab_error::{LabError, LabErrorContext};
use crate::path_spec::{HostSpec, PathSpec};
use longhaul_sys::mount;
use longhaul_sys::netlink::{self, DeviceSettings, NetlinkSocket};
use longhaul_sys::netns::{self, NamespaceKind};
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

pub(crate) const DEVICE: &str = "wan0";
/// The length of the device queue: TUN has no back pressure, so it must hold a whole window's
/// burst.
const QUEUE_PACKETS: u32 = 20_000;
/// The minimum MTU of IPv6, RFC 8200.
const MTU_IPV6_MIN: u32 = 1280;
const CONGESTION_CONTROL: &str = "net.ipv4.tcp_congestion_control";

/// Sysctls to set before the device is created, which takes the defaults of its namespace.
const SETTINGS: &[(&str, &str)] = &[
    ("net.ipv6.conf.default.accept_ra", "0"),
    ("net.ipv6.conf.default.autoconf", "0"),
    ("net.ipv6.conf.default.accept_dad", "0"),
    ("net.ipv6.conf.default.router_solicitations", "0"),
    ("net.ipv6.conf.default.addr_gen_mode", "1"),
    // A connection must not start with metrics learned by another.
    ("net.ipv4.tcp_no_metrics_save", "1"),
];

/// A host, held by its namespaces.
#[derive(Debug)]
pub(crate) struct HostNamespace {
    /// The host name that its commands see.
    pub name: &'static str,
    pub net: OwnedFd,
    pub mount: Option<OwnedFd>,
}

impl HostNamespace {
    /// Returns the packets dropped because the device's queue was full.
    pub(crate) fn device_drops(&self) -> u64 {
        let read = || {
            netns::enter_namespace(&self.net, NamespaceKind::Net)?;
            std::fs::read_to_string("/proc/thread-self/net/dev")
        };
        let table = run_on_thread(read).flatten().unwrap_or_default();
        parse_transmit_drops(&table, DEVICE).unwrap_or_default()
    }
}

/// Returns column 12 of a line of /proc/net/dev: `wan0: …`.
fn parse_transmit_drops(table: &str, device: &str) -> Option<u64> {
    let lines = table.lines().filter_map(|line| line.split_once(':'));
    let (_, columns) = lines.into_iter().find(|(name, _)| name.trim() == device)?;
    columns.split_whitespace().nth(11)?.parse().ok()
}

/// Runs `work` on a separate thread, whose namespaces it may change.
pub(super) fn run_on_thread<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, work)?;
        thread.join().map_err(|_| io::Error::other("the set-up thread panicked"))
    })
}

/// Creates a host. With a `middle` namespace its device is a veth pair that ends there, otherwise
/// TUN.
pub(super) fn create_host(
    spec: &PathSpec,
    host: LabHost,
    middle: Option<&OwnedFd>,
    caveats: &mut Vec<String>,
) -> Result<(HostNamespace, EnginePort), LabError> {
    let created = run_on_thread(|| create_host_here(spec, host, middle, caveats));
    created.with_context("cannot start a thread")?
}

fn create_host_here(
    spec: &PathSpec,
    host: LabHost,
    middle: Option<&OwnedFd>,
    caveats: &mut Vec<String>,
) -> Result<(HostNamespace, EnginePort), LabError> {
    netns::unshare_namespace(NamespaceKind::Net)
        .with_context("cannot create a network namespace")
        .map_err(|error| error.hint("run as root, or permit user namespaces"))?;
    for (name, value) in SETTINGS {
        // A kernel without IPv6 or one of these settings does not need it.
        let _ = super::write_sysctl(name, value);
    }
    let open_ping = super::write_sysctl("net.ipv4.ping_group_range", "0 2147483647");
    if open_ping.is_err() {
        // In a user namespace only mapped groups may be named.
        let _ = super::write_sysctl("net.ipv4.ping_group_range", "0 0");
    }
    let device_context = format!("cannot set up device {DEVICE}");
    let port = if let Some(middle) = middle {
        super::add_veth(host, spec.mtu, middle)?;
        set_up_device(spec, host).with_context(device_context)?;
        super::open_packet_port(host, middle, caveats)?
    } else {
        let port = super::open_tun()?;
        set_up_device(spec, host).with_context(device_context)?;
        port
    };
    let name = host.name();
    set_sysctls(name, spec.host(host), caveats)?;
    let net = netns::open_own_namespace(NamespaceKind::Net)
        .with_context("cannot open the network namespace")?;
    let mount = create_mount_namespace(spec, caveats);
    Ok((HostNamespace { name, net, mount }, port))
}

fn set_up_device(spec: &PathSpec, host: LabHost) -> io::Result<()> {
    let own = host.address();
    let netlink = NetlinkSocket::open()?;
    netlink.set_up(netlink::interface_index("lo")?)?;
    let index = netlink::interface_index(DEVICE)?;
    let device = DeviceSettings { mtu: spec.mtu, queue_packets: QUEUE_PACKETS, no_arp: true };
    netlink.set_device(index, &device)?;
    let mut addresses = vec![IpAddr::V4(own.v4)];
    let has_ipv6 = std::path::Path::new("/proc/sys/net/ipv6").exists();
    if spec.mtu >= MTU_IPV6_MIN && has_ipv6 {
        addresses.push(IpAddr::V6(own.v6));
    }
    for address in addresses {
        netlink.add_host_address(index, address)?;
        netlink.add_default_route(index, address)?;
    }
    Ok(())
}

fn set_sysctls(host: &str, spec: &HostSpec, caveats: &mut Vec<String>) -> Result<(), LabError> {
    for (name, value) in &spec.sysctl {
        match super::write_sysctl(name, value) {
            Ok(()) => {}
            Err(error) if name == CONGESTION_CONTROL && is_permission_denied(&error) => {
                let kept = super::read_sysctl(name).unwrap_or_default();
                caveats.push(format!(
                    "host {host} keeps congestion control {kept}: {value} is not among \
                     net.ipv4.tcp_allowed_congestion_control of the machine"
                ));
                continue;
            }
            Err(error) => return Err(sysctl_error(host, name, value, error)),
        }
        let read = super::read_sysctl(name).unwrap_or_default();
        if read != super::normalize_spaces(value) {
            caveats.push(format!("host {host}: requested {name} = {value}, got {read}"));
        }
    }
    Ok(())
}

fn is_permission_denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

fn sysctl_error(host: &str, name: &str, value: &str, error: io::Error) -> LabError {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "set it under [machine] if the kernel has it only for the whole machine"
        }
        io::ErrorKind::NotFound => "remove it from the path file: this kernel has no such setting",
        _ => "check the value: the kernel rejected it",
    };
    let tried = format!("cannot set {name} = {value} on host {host}");
    LabError::from_io(tried, error).hint(hint).into_usage()
}

/// Creates a mount namespace for the host's commands; without one they still run, with
/// restrictions.
fn create_mount_namespace(spec: &PathSpec, caveats: &mut Vec<String>) -> Option<OwnedFd> {
    let made =
        netns::unshare_namespace(NamespaceKind::Mount).and_then(|()| mount::make_mounts_private());
    match made.and_then(|()| netns::open_own_namespace(NamespaceKind::Mount)) {
        Ok(held) => {
            super::mount_for_host(spec, caveats);
            Some(held)
        }
        Err(error) => {
            caveats.push(format!(
                "cannot create a mount namespace for the host ({error}): use {} for near and {} for far",
                LabHost::Near.address().v4,
                LabHost::Far.address().v4
            ));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drops_of_a_device_are_the_fourth_of_its_transmit_columns() {
        let table = "Inter-| Receive | Transmit\n face |bytes packets\n\
                     \x20 lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n\
                     wan0: 1 2 3 4 5 6 7 8 9 10 11 42 13 14 15 16\n";
        assert_eq!(parse_transmit_drops(table, "wan0"), Some(42));
        assert_eq!(parse_transmit_drops(table, "eth0"), None);
    }
}
