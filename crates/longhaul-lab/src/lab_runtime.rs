//! A running path: two hosts in network namespaces, and the thread that carries packets between
//! them.
//!
//! [`RunningLab::set_up`] creates both; dropping the [`RunningLab`] ends the thread and, with their last process,
//! the namespaces. Everything is held by descriptors of this process, so a crash leaves nothing
//! behind.
//!
//! # Lateness
//!
//! The release lateness of packets: the timing error of the emulated path.
//!
//! Source: the clock at each write, minus the time at which the packet was due. Units: nanoseconds
//! in buckets an eighth of an octave wide, so quantiles are right within 9 %.
//!
//! # Host files
//!
//! Gives commands in a host names for hosts and routers, and shows them only its own devices.
//!
//! The names are in a hosts file mounted over `/etc/hosts`; `/sys` is mounted again, because it
//! shows the devices of the namespace in which it was mounted.

mod engine_driver;
pub(crate) mod host_namespace;

use crate::emulation_engine::{
    EmulationEngine, LabHost, NodeAddress, PathTruth, assign_router_addresses, list_routes,
};
use crate::lab_error::{LabError, LabErrorContext, LabErrorKind};
use crate::path_spec::PathSpec;
use engine_driver::{DriverOrder, EngineDriver};
use host_namespace::{DEVICE, HostNamespace, run_on_thread};
use longhaul_sys::netlink::{self, NetlinkSocket, VethPair};
use longhaul_sys::netns::{self, NamespaceKind};
use longhaul_sys::{mount, packet_ring, poll, process_control, tun};
use std::fmt::Write as _;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

/// The way in which hosts are attached to the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabBackend {
    /// TUN devices; need root, as `/dev/net/tun` usually does.
    Tun,
    /// Packet sockets on veth pairs; need no root.
    Packet,
}

impl LabBackend {
    /// Returns the name as in `--backend` and in the truth file.
    pub fn name(self) -> &'static str {
        match self {
            LabBackend::Tun => "tun",
            LabBackend::Packet => "packet",
        }
    }
}

/// The 99th percentile of release lateness above which the timing is not accurate.
pub const LATENESS_LIMIT: Duration = Duration::from_millis(1);
/// The time within which the engine thread must answer.
const ANSWER_DEADLINE: Duration = Duration::from_secs(5);

/// The state of the engine thread.
#[derive(Debug, Clone)]
pub struct LabReading {
    pub truth: PathTruth,
    pub lateness: LatenessHistogram,
    /// Packets that a host's device did not accept.
    pub refused: u64,
    /// Packets lost before the path began because the queue of the host's device was full.
    pub overrun: u64,
}

/// A path that has been set up.
pub struct RunningLab {
    /// Host near and host far.
    hosts: [HostNamespace; 2],
    pub backend: LabBackend,
    /// Differences from the requested setup.
    pub caveats: Vec<String>,
    orders: Sender<DriverOrder>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    /// Becomes readable when the engine thread ends, which it should not do on its own.
    ended: std::io::PipeReader,
}

impl RunningLab {
    /// Creates the hosts and starts the engine.
    pub fn set_up(spec: &PathSpec, backend: Option<LabBackend>) -> Result<RunningLab, LabError> {
        let (backend, built) = match backend {
            Some(backend) => (backend, build_hosts(spec, backend)?),
            None => build_best_hosts(spec)?,
        };
        let LabHosts { hosts, ports, mut caveats } = built;
        let mut engine = EmulationEngine::new(spec, 0);
        if backend == LabBackend::Packet {
            engine = engine.with_ethernet(HOST_MACS);
        }
        let wake =
            Arc::new(poll::wake_descriptor().with_context("cannot create an event descriptor")?);
        let (ended, held) = std::io::pipe().with_context("cannot create a pipe")?;
        let (orders, received) = mpsc::channel();
        let (started, start) = mpsc::sync_channel(1);
        let driver = EngineDriver::new(engine, ports, Arc::clone(&wake), received);
        let thread = std::thread::Builder::new()
            .name("lab engine".to_owned())
            .spawn(move || {
                // Closed when the thread ends, even by a panic.
                let _held = held;
                driver.run(&started);
            })
            .with_context("cannot start the engine thread")?;
        caveats.extend(start.recv_timeout(ANSWER_DEADLINE).ok().flatten());
        Ok(RunningLab { hosts, backend, caveats, orders, wake, thread: Some(thread), ended })
    }

    /// Reads the state of the path.
    ///
    /// # Errors
    /// The engine thread does not answer in time.
    pub fn read_state(&self) -> Result<LabReading, LabError> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.send_order(DriverOrder::Report(answer));
        let mut reading = answered.recv_timeout(ANSWER_DEADLINE).map_err(|_| {
            LabError::new(LabErrorKind::Internal, "the engine thread does not answer")
        })?;
        if self.backend == LabBackend::Tun {
            reading.overrun = self.hosts.iter().map(HostNamespace::device_drops).sum();
        }
        Ok(reading)
    }

    fn send_order(&self, order: DriverOrder) {
        // If the thread has ended, the waiting side notices it.
        let _ = self.orders.send(order);
        let _ = poll::signal_wake(&*self.wake);
    }

    /// Returns a descriptor that is readable once the engine thread has ended.
    pub(crate) fn ended(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    pub(crate) fn host(&self, host: LabHost) -> &HostNamespace {
        &self.hosts[host as usize]
    }
}

impl Drop for RunningLab {
    fn drop(&mut self) {
        self.send_order(DriverOrder::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns a caveat, as a sentence, if the timing was not accurate.
pub fn find_timing_caveat(reading: &LabReading) -> Option<String> {
    if reading.overrun > 0 {
        return Some(format!(
            "{} packets were lost before they entered the path: the machine was too busy",
            reading.overrun
        ));
    }
    let p99 = reading.lateness.p99()?;
    (p99 > LATENESS_LIMIT).then(|| {
        format!(
            "1 % of all packets were released more than {} late: the machine was too busy to keep \
             the configured timing",
            longhaul_model::units::format_duration(p99)
        )
    })
}

struct LabHosts {
    hosts: [HostNamespace; 2],
    ports: [EnginePort; 2],
    caveats: Vec<String>,
}

fn build_best_hosts(spec: &PathSpec) -> Result<(LabBackend, LabHosts), LabError> {
    if can_open_tun()
        && let Ok(built) = build_hosts(spec, LabBackend::Tun)
    {
        return Ok((LabBackend::Tun, built));
    }
    Ok((LabBackend::Packet, build_hosts(spec, LabBackend::Packet)?))
}

fn build_hosts(spec: &PathSpec, backend: LabBackend) -> Result<LabHosts, LabError> {
    let mut caveats = Vec::new();
    let middle = match backend {
        LabBackend::Tun => None,
        LabBackend::Packet => Some(create_middle_namespace()?),
    };
    let mut create = |host| host_namespace::create_host(spec, host, middle.as_ref(), &mut caveats);
    let (near, near_port) = create(LabHost::Near)?;
    let (far, far_port) = create(LabHost::Far)?;
    Ok(LabHosts { hosts: [near, far], ports: [near_port, far_port], caveats })
}

/// The channel on which the driver reports that it runs, with a caveat if it has one.
type DriverStarted = SyncSender<Option<String>>;

/// Returns the file below `/proc/sys` of a sysctl such as `net.ipv4.tcp_rmem`.
pub(crate) fn sysctl_path(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(name.replace('.', "/"))
}

/// Reads the value, normalised to single spaces.
pub(crate) fn read_sysctl(name: &str) -> io::Result<String> {
    Ok(normalize_spaces(&std::fs::read_to_string(sysctl_path(name))?))
}

pub(crate) fn write_sysctl(name: &str, value: &str) -> io::Result<()> {
    std::fs::write(sysctl_path(name), value)
}

/// Normalises white space: the kernel separates lists with tabs, people use spaces.
pub(crate) fn normalize_spaces(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

const BUCKETS_PER_OCTAVE: f64 = 8.0;
/// Up to 2^36 ns, more than a minute.
const BUCKETS: usize = 36 * 8;

/// A histogram of lateness.
#[derive(Debug, Clone)]
pub struct LatenessHistogram {
    buckets: Box<[u64; BUCKETS]>,
    count: u64,
    sum_ns: u64,
    max_ns: u64,
}

impl Default for LatenessHistogram {
    fn default() -> Self {
        LatenessHistogram { buckets: Box::new([0; BUCKETS]), count: 0, sum_ns: 0, max_ns: 0 }
    }
}

impl LatenessHistogram {
    pub(crate) fn add(&mut self, late_ns: u64) {
        let octaves = (late_ns.max(1) as f64).log2();
        let bucket = (octaves * BUCKETS_PER_OCTAVE) as usize;
        self.buckets[bucket.min(BUCKETS - 1)] += 1;
        self.count += 1;
        self.sum_ns += late_ns;
        self.max_ns = self.max_ns.max(late_ns);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn mean(&self) -> Option<Duration> {
        self.sum_ns.checked_div(self.count).map(Duration::from_nanos)
    }

    /// Returns the upper edge of the bucket that contains the 99th percentile.
    pub fn p99(&self) -> Option<Duration> {
        let wanted = self.count - self.count / 100;
        let mut counted = 0;
        let bucket = self.buckets.iter().position(|count| {
            counted += count;
            counted >= wanted && wanted > 0
        })?;
        let edge = ((bucket + 1) as f64 / BUCKETS_PER_OCTAVE).exp2();
        Some(Duration::from_nanos((edge as u64).min(self.max_ns)))
    }

    pub fn max(&self) -> Option<Duration> {
        (self.count > 0).then(|| Duration::from_nanos(self.max_ns))
    }
}

/// Returns the hosts file of a path.
fn format_hosts_file(spec: &PathSpec) -> String {
    let mut text = String::from("127.0.0.1 localhost\n::1 localhost ip6-localhost\n");
    let mut add_name = |node: NodeAddress, name: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{} {name}\n{} {name}", node.v4, node.v6);
    };
    add_name(LabHost::Near.address(), "near");
    add_name(LabHost::Far.address(), "far");
    if is_host_name(&spec.key) {
        add_name(LabHost::Far.address(), &spec.key);
    }
    for ((_, hops), addresses) in list_routes(spec).zip(assign_router_addresses(spec)) {
        for (hop, router) in hops.iter().zip(addresses) {
            add_name(router, &hop.name);
            for way in 1..hop.balance {
                add_name(router.parallel(way), &format!("{}-{}", hop.name, way + 1));
            }
        }
    }
    text
}

/// Reports whether the key is a valid host name. The far host also has the name of its path, so
/// that runs on several paths have different names in one archive. The stem of a user's file may
/// not be a valid host name.
fn is_host_name(key: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let taken = ["near", "far", "localhost"].contains(&key);
    (1..=63).contains(&key.len()) && key.chars().all(letters) && !key.starts_with('-') && !taken
}

/// Names resolve to IPv4 first, as the goodput limits assume; IPv6 is used on request.
const ADDRESS_CHOICE: &str = "precedence ::ffff:0:0/96 100\n";

/// Changes the calling thread's mounts, which must be private to it, and adds caveats for refused
/// ones.
fn mount_for_host(spec: &PathSpec, caveats: &mut Vec<String>) {
    if let Err(error) = mount_text(&format_hosts_file(spec), "/etc/hosts") {
        caveats.push(format!(
            "commands cannot resolve the names near and far ({error}); use {} and {}",
            LabHost::Near.address().v4,
            LabHost::Far.address().v4
        ));
    }
    // Only glibc reads this file; another libc has its own preference.
    let _ = mount_text(ADDRESS_CHOICE, "/etc/gai.conf");
    if let Err(error) = mount::mount_sysfs() {
        caveats.push(format!("/sys shows the devices of the machine, not of the host ({error})"));
    }
}

/// Mounts a file with `text` over `on`.
fn mount_text(text: &str, on: &str) -> io::Result<()> {
    let file = unique_temp_path("shown")?;
    std::fs::write(&file, text)?;
    let shown = mount::bind_mount(&file, Path::new(on));
    // The mount keeps the file, so its name is not needed.
    std::fs::remove_file(&file)?;
    shown
}

/// Returns an unpredictable name in the folder for temporary files.
pub(crate) fn unique_temp_path(what: &str) -> io::Result<PathBuf> {
    Ok(std::env::temp_dir().join(format!("longhaul-lab-{what}-{}", generate_random_hex()?)))
}

/// Writes a file that appears only when it is complete.
pub(crate) fn write_whole_file(path: &Path, text: &str) -> io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}.new", std::process::id()));
    std::fs::write(&unfinished, text)?;
    std::fs::rename(unfinished, path)
}

/// Returns 128 random bits.
pub(crate) fn generate_random_hex() -> io::Result<String> {
    let mut bytes = [0; 16];
    process_control::fill_random(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

/// The addresses of host near and host far: locally administered, never on a wire.
const HOST_MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
/// The buffer for packets that arrive while the engine sleeps; the kernel doubles it.
const SOCKET_BYTES: i32 = 1 << 29;
/// The maximum age of a timestamp; an older one means that the clock was stepped.
const AGE_MAX: Duration = Duration::from_secs(1);

/// The device of one host, as the engine sees it.
#[derive(Debug)]
enum EnginePort {
    Tun(OwnedFd),
    Packet(OwnedFd),
}

/// A packet that was read: its length, and the time since the host sent it.
struct PortRead {
    pub bytes: usize,
    pub age: Duration,
}

impl EnginePort {
    fn read(&self, into: &mut [u8]) -> io::Result<PortRead> {
        match self {
            EnginePort::Tun(device) => {
                Ok(PortRead { bytes: poll::read_descriptor(device, into)?, age: Duration::ZERO })
            }
            EnginePort::Packet(socket) => {
                let received = packet_ring::receive_frame(socket, into)?;
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                let age = received.at.zip(now.ok()).and_then(|(at, now)| now.checked_sub(at));
                Ok(PortRead {
                    bytes: received.bytes,
                    age: age.filter(|age| *age < AGE_MAX).unwrap_or_default(),
                })
            }
        }
    }

    fn write(&self, header: &[u8], payload: &[u8]) -> io::Result<()> {
        poll::write_packet(self, &[IoSlice::new(header), IoSlice::new(payload)]).map(drop)
    }

    /// Returns the packets lost to a full buffer since the last call, for devices that count them.
    fn drops(&self) -> u64 {
        match self {
            EnginePort::Tun(_) => 0,
            EnginePort::Packet(socket) => packet_ring::take_drops(socket).unwrap_or_default(),
        }
    }
}

impl AsFd for EnginePort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            EnginePort::Tun(descriptor) | EnginePort::Packet(descriptor) => descriptor.as_fd(),
        }
    }
}

/// Reports whether this process may open the TUN driver; some machines allow it only to root.
fn can_open_tun() -> bool {
    let device = std::fs::File::options().read(true).write(true).open("/dev/net/tun");
    device.is_ok()
}

fn open_tun() -> Result<EnginePort, LabError> {
    let tun = tun::open_tun_device(DEVICE)
        .with_context(format!("cannot create TUN device {DEVICE}"))
        .map_err(|error| error.hint("run as root, or use the option --backend packet"))?;
    Ok(EnginePort::Tun(tun.descriptor))
}

/// Creates the namespace that holds the engine's ends of the veth pairs.
fn create_middle_namespace() -> Result<OwnedFd, LabError> {
    let make = || {
        netns::unshare_namespace(NamespaceKind::Net)?;
        // The engine's ends need no addresses.
        let _ = write_sysctl("net.ipv6.conf.default.disable_ipv6", "1");
        netns::open_own_namespace(NamespaceKind::Net)
    };
    run_on_thread(make)
        .flatten()
        .with_context("cannot create a network namespace")
        .map_err(|error| error.hint("run as root, or permit user namespaces"))
}

fn peer_name(host: LabHost) -> &'static str {
    match host {
        LabHost::Near => "near0",
        LabHost::Far => "far0",
    }
}

fn add_veth(host: LabHost, mtu: u32, middle: &OwnedFd) -> Result<(), LabError> {
    let pair = VethPair {
        name: DEVICE,
        address: HOST_MACS[host as usize],
        peer_name: peer_name(host),
        peer_address: [2, 0, 0, 0, 1, host as u8 + 1],
        mtu,
    };
    NetlinkSocket::open()
        .and_then(|netlink| netlink.add_veth(&pair, middle))
        .with_context(format!("cannot create veth pair {DEVICE}"))
        .map_err(|error| error.hint("use a kernel with CONFIG_VETH"))
}

/// Opens the engine's end of the veth pair of `host`.
fn open_packet_port(
    host: LabHost,
    middle: &OwnedFd,
    caveats: &mut Vec<String>,
) -> Result<EnginePort, LabError> {
    let open = || -> io::Result<(OwnedFd, bool)> {
        netns::enter_namespace(middle, NamespaceKind::Net)?;
        let netlink = NetlinkSocket::open()?;
        let index = netlink::interface_index(peer_name(host))?;
        netlink.set_up(index)?;
        let socket = packet_ring::open_packet_socket(index)?;
        let forced = packet_ring::set_buffers(&socket, SOCKET_BYTES)?;
        Ok((socket, forced))
    };
    let (socket, forced) =
        run_on_thread(open).flatten().with_context("cannot open a packet socket")?;
    if !forced && host == LabHost::Near {
        caveats.push(
            "packet sockets have only the buffers that net.core.rmem_max allows: packets may be \
             lost before they enter the path on a busy machine"
                .to_owned(),
        );
    }
    Ok(EnginePort::Packet(socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_bucket_of_the_truth() {
        let mut lateness = LatenessHistogram::default();
        assert_eq!(lateness.p99(), None);
        for late_us in 1..=1000 {
            lateness.add(late_us * 1000);
        }
        let p99 = lateness.p99().expect("a thousand values").as_nanos() as f64;
        assert!((p99 / 990_000.0 - 1.0).abs() < 0.1, "{p99}");
        assert_eq!(lateness.max(), Some(Duration::from_millis(1)));
        assert_eq!(lateness.mean(), Some(Duration::from_nanos(500_500)));
    }
}

#[cfg(test)]
mod host_files_tests {
    use super::*;

    #[test]
    fn the_far_host_has_the_name_of_its_path_where_that_is_one() {
        let mut spec =
            crate::path_catalogue::load_path("slac-cesnet", &[]).expect("a shipped path");
        let lines = |spec: &PathSpec| {
            let file = format_hosts_file(spec);
            let of_far = file.lines().filter(|it| it.ends_with(" slac-cesnet"));
            of_far.count()
        };
        assert_eq!(lines(&spec), 2, "IPv4 and IPv6");
        "evil\n192.0.2.1 slac-cesnet".clone_into(&mut spec.key);
        assert_eq!(lines(&spec), 0);
        for key in ["far", "localhost", "", "-a", "a b"] {
            assert!(!is_host_name(key), "{key}");
        }
    }
}
