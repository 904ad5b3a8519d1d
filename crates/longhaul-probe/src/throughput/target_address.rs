//! Finds the addresses of a target, and the one that is used for all connections of a run.

use super::connection_race::{
    AddressFailure, EndedAttempt, RaceAttempts, RaceResult, interleave_families, race_connections,
};
use super::control_connect::create_socket;
use super::{IpFamily, TargetHost};
use crate::host_endpoint::ScopedAddress;
use crate::probe_error::{ConnectFailures, ProbeError};
use longhaul_model::report::v1::FailedAddress;
use longhaul_sys::host::network_interface::list_addresses;
use longhaul_sys::listening_socket::prepare_control_socket;
use longhaul_sys::netlink::interface_index;
use longhaul_sys::poll::wait_writable;
use longhaul_sys::tcp_transfer::{ConnectingTcp, UnconnectedTcp};
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// The maximum time to find out which address of a path answers TCP. Paths are also measured to
/// hosts that answer none.
const PATH_RACE_TIMEOUT: Duration = Duration::from_secs(2);

/// The address of a target that is used, and those that failed before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenAddress {
    pub address: SocketAddr,
    pub failed: Vec<FailedAddress>,
}

/// A TCP connection, and the target with the address of this connection.
#[derive(Debug)]
pub struct TargetConnection {
    pub stream: TcpStream,
    pub address: SocketAddr,
    pub target: TargetHost,
}

impl ChosenAddress {
    fn new(address: SocketAddr, failed: Vec<AddressFailure>) -> ChosenAddress {
        let failed = failed.into_iter().map(|failure| FailedAddress {
            address: failure.address.ip().to_string(),
            reason: describe_failure(&failure.source),
        });
        ChosenAddress { address, failed: failed.collect() }
    }
}

impl TargetHost {
    /// Returns the target with the address to use.
    #[must_use]
    pub fn with_address(&self, chosen: ChosenAddress) -> TargetHost {
        TargetHost { chosen: Some(chosen), ..self.clone() }
    }

    /// Returns the addresses that failed before one was chosen.
    pub fn failed_addresses(&self) -> Vec<FailedAddress> {
        self.chosen.as_ref().map(|chosen| chosen.failed.clone()).unwrap_or_default()
    }

    /// Returns the requested family, or that of the local address.
    fn wanted_family(&self) -> Option<IpFamily> {
        self.family.or(self.bind.address.map(IpFamily::of_address))
    }
}

/// Returns the text of an error in the style of a report: without the number of the error.
fn describe_failure(error: &io::Error) -> String {
    let text = error.to_string();
    let mut rest = text.split(" (os error").next().unwrap_or_default().chars();
    let first = rest.next().map(char::to_lowercase);
    first.into_iter().flatten().chain(rest).collect()
}

/// The addresses of a target.
struct TargetAddresses {
    /// Of the requested family, in the order in which they are tried.
    usable: Vec<SocketAddr>,
    /// The family that only addresses have that were not requested.
    excluded: Option<IpFamily>,
}

fn resolve_target(target: &TargetHost) -> Result<TargetAddresses, ProbeError> {
    let failed = |source| ProbeError::Resolve { host: target.host.clone(), source };
    if let Some(chosen) = &target.chosen {
        return Ok(TargetAddresses { usable: vec![chosen.address], excluded: None });
    }
    let all: Vec<SocketAddr> = match ScopedAddress::parse(&target.host) {
        Some(literal) => vec![resolve_literal(target, literal)?],
        None => (target.host.as_str(), target.port).to_socket_addrs().map_err(failed)?.collect(),
    };
    let wanted = target.wanted_family();
    let fits = |address: &SocketAddr| {
        wanted.is_none_or(|family| IpFamily::of_address(address.ip()) == family)
    };
    let excluded = all.iter().find(|address| !fits(address));
    let excluded = excluded.map(|address| IpFamily::of_address(address.ip()));
    let usable = interleave_families(all.into_iter().filter(fits));
    if usable.is_empty() {
        let family = match wanted {
            None => "address",
            Some(IpFamily::V4) => "IPv4 address",
            Some(IpFamily::V6) => "IPv6 address",
        };
        let text = format!("the name has no {family}");
        return Err(failed(io::Error::new(io::ErrorKind::NotFound, text)));
    }
    Ok(TargetAddresses { usable, excluded })
}

/// Returns the address with the number of its interface. The resolver accepts an interface only
/// with some kinds of addresses.
fn resolve_literal(
    target: &TargetHost,
    literal: ScopedAddress<'_>,
) -> Result<SocketAddr, ProbeError> {
    let scope = match literal.scope.or(target.bind.device.as_deref()) {
        Some(name) => name.parse().or_else(|_| interface_index(name)).map_err(|_| {
            let text = format!("this host has no interface `{name}`");
            let source = io::Error::new(io::ErrorKind::NotFound, text);
            ProbeError::Resolve { host: target.host.clone(), source }
        })?,
        None if literal.address.is_unicast_link_local() => {
            let interfaces = list_link_local_interfaces();
            return Err(ProbeError::ScopeMissing { address: literal.address, interfaces });
        }
        None => 0,
    };
    Ok(SocketAddrV6::new(literal.address, target.port, 0, scope).into())
}

/// Returns the names of the interfaces that have a link-local address.
fn list_link_local_interfaces() -> Vec<String> {
    let is_link_local = |address: &IpAddr| match address {
        IpAddr::V6(v6) => Ipv6Addr::is_unicast_link_local(v6),
        IpAddr::V4(_) => false,
    };
    let addresses = list_addresses().unwrap_or_default();
    let linked = addresses.into_iter().filter(|(_, address)| is_link_local(address));
    let mut names: Vec<String> = linked.map(|(name, _)| name).collect();
    names.dedup();
    names
}

/// Connects to the first address of the target that answers (RFC 8305), within the connect timeout,
/// with options for small messages. A target with a chosen address is connected to that one.
///
/// # Errors
/// The name has no address, or none of its addresses gives a connection.
pub fn connect_target(target: &TargetHost) -> Result<TargetConnection, ProbeError> {
    let addresses = resolve_target(target)?;
    let race = run_race(target, &addresses.usable, target.connect_timeout)?;
    let Some((address, stream)) = race.winner else {
        let failures = ConnectFailures { list: race.failed, excluded: addresses.excluded };
        return Err(ProbeError::Connect { host: target.host.clone(), failures });
    };
    prepare_control_socket(&stream)
        .map_err(|source| ProbeError::connect(target, address, source))?;
    let target = match target.chosen {
        Some(_) => target.clone(),
        None => target.with_address(ChosenAddress::new(address, race.failed)),
    };
    Ok(TargetConnection { stream, address, target })
}

/// Returns the target with the address that is used for all connections of a run.
///
/// # Errors
/// Like [`connect_target`].
pub fn choose_address(target: &TargetHost) -> Result<TargetHost, ProbeError> {
    Ok(connect_target(target)?.target)
}

/// Returns the address whose path is measured: the only one, the first that answers TCP, by a
/// connection or by a refusal, or else the first that this host has a route to.
///
/// # Errors
/// The name has no address.
pub fn choose_path_address(target: &TargetHost) -> Result<ChosenAddress, ProbeError> {
    if let Some(chosen) = &target.chosen {
        return Ok(chosen.clone());
    }
    let addresses = resolve_target(target)?.usable;
    if let [only] = addresses.as_slice() {
        return Ok(ChosenAddress::new(*only, Vec::new()));
    }
    let RaceResult { winner, mut failed } =
        run_race(target, &addresses, target.connect_timeout.min(PATH_RACE_TIMEOUT))?;
    let address = winner.map_or_else(|| pick_measurable(&addresses, &failed), |(won, _)| won);
    failed.retain(|failure| failure.address != address);
    Ok(ChosenAddress::new(address, failed))
}

/// Returns the address that refused, else one that did not fail at once, else the first.
fn pick_measurable(addresses: &[SocketAddr], failed: &[AddressFailure]) -> SocketAddr {
    let find = |kind| failed.iter().find(|it| it.source.kind() == kind).map(|it| it.address);
    let answered = find(io::ErrorKind::ConnectionRefused);
    answered.or_else(|| find(io::ErrorKind::TimedOut)).unwrap_or(addresses[0])
}

fn run_race(
    target: &TargetHost,
    addresses: &[SocketAddr],
    deadline: Duration,
) -> Result<RaceResult<TcpStream>, ProbeError> {
    let mut created = Vec::new();
    for &address in addresses {
        created.push(WaitingSocket { address, socket: create_socket(target, address)? });
    }
    let mut attempts = SocketAttempts { began: Instant::now(), created, open: Vec::new() };
    Ok(race_connections(addresses, &mut attempts, deadline))
}

struct WaitingSocket {
    address: SocketAddr,
    socket: UnconnectedTcp,
}

/// Attempts on sockets of this host.
struct SocketAttempts {
    began: Instant,
    created: Vec<WaitingSocket>,
    open: Vec<(SocketAddr, ConnectingTcp)>,
}

impl RaceAttempts for SocketAttempts {
    type Connection = TcpStream;

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn start(&mut self, address: SocketAddr) -> io::Result<()> {
        let index = self.created.iter().position(|it| it.address == address);
        let index = index.ok_or(io::ErrorKind::NotFound)?;
        let connecting = self.created.swap_remove(index).socket.begin_connect()?;
        self.open.push((address, connecting));
        Ok(())
    }

    fn wait(&mut self, until: Duration) -> Option<EndedAttempt<TcpStream>> {
        let left = until.saturating_sub(self.now());
        let descriptors: Vec<_> = self.open.iter().map(|(_, socket)| socket.as_fd()).collect();
        let index = match wait_writable(&descriptors, left) {
            Ok(ready) => ready.iter().position(|ready| *ready)?,
            // Without this wait no attempt can go on.
            Err(source) => {
                let address = self.open.pop()?.0;
                return Some(EndedAttempt { address, result: Err(source) });
            }
        };
        let (address, socket) = self.open.remove(index);
        Some(EndedAttempt { address, result: socket.finish_connect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn target(host: &str, port: u16) -> TargetHost {
        TargetHost { port, connect_timeout: Duration::from_secs(5), ..TargetHost::new(host) }
    }

    #[test]
    fn the_next_address_of_a_name_is_used_when_one_refuses() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let port = listener.local_addr().expect("its address").port();
        let refusing = SocketAddr::from(([127, 0, 0, 2], port));
        let living = SocketAddr::from(([127, 0, 0, 1], port));
        let race = run_race(&target("far", port), &[refusing, living], Duration::from_secs(5));
        let race = race.expect("sockets");
        assert_eq!(race.winner.map(|(address, _)| address), Some(living));
        assert_eq!(race.failed[0].address, refusing);
        assert_eq!(describe_failure(&race.failed[0].source), "connection refused");
    }

    #[test]
    fn a_scope_is_kept_and_may_name_any_interface() {
        let scoped = |host: &str| resolve_target(&target(host, 7)).expect("an address").usable[0];
        let lo = interface_index("lo").expect("every host has one");
        let loopback = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 7, 0, lo);
        assert_eq!(scoped("::1%lo"), loopback.into());
        assert_eq!(scoped(&format!("::1%{lo}")), loopback.into());
        assert!(matches!(scoped("fe80::1%lo"), SocketAddr::V6(v6) if v6.scope_id() == lo));
        let error = resolve_target(&target("fe80::1%no-such-dev", 7)).err().expect("no interface");
        assert!(matches!(error, ProbeError::Resolve { .. }), "{error}");
    }

    #[test]
    fn a_link_local_address_without_interface_is_refused_with_the_remedy() {
        let error = resolve_target(&target("fe80::1", 7)).err().expect("no scope");
        assert!(error.to_string().contains("fe80::1"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("fe80::1%")), "{error}");
        let bound = TargetHost {
            bind: crate::engine::LocalBind { device: Some("lo".into()), ..Default::default() },
            ..target("fe80::1", 7)
        };
        assert!(resolve_target(&bound).is_ok());
    }

    #[test]
    fn a_local_address_restricts_the_family_of_the_other_end() {
        let bind = crate::engine::LocalBind {
            address: Some("::1".parse().expect("v6")),
            ..Default::default()
        };
        let error = resolve_target(&TargetHost { bind, ..target("127.0.0.1", 7) });
        assert!(matches!(error, Err(ProbeError::Resolve { .. })));
    }

    #[test]
    fn a_path_goes_to_the_address_that_answers_and_else_to_one_with_a_route() {
        let failure = |address: &str, kind: io::ErrorKind| AddressFailure {
            address: address.parse().expect("an address"),
            source: kind.into(),
        };
        let v6 = failure("[fd99::1]:7", io::ErrorKind::NetworkUnreachable);
        let addresses = ["[fd99::1]:7", "192.0.2.1:7"].map(|it| it.parse().expect("an address"));
        for kind in [io::ErrorKind::ConnectionRefused, io::ErrorKind::TimedOut] {
            let failed = [v6.address, addresses[1]];
            let failed = failed.map(|address| AddressFailure {
                address,
                source: if address == addresses[1] { kind } else { v6.source.kind() }.into(),
            });
            assert_eq!(pick_measurable(&addresses, &failed), addresses[1]);
        }
        assert_eq!(pick_measurable(&addresses, &[v6]), addresses[0]);
    }
}
