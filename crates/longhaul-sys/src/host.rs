//! Properties of this host: names, sysctls, cores, protocol counters, interfaces and their hardware
//! (driver, queues, route, bus, interrupts, clock).
//!
//! All values are those of the calling thread's network namespace. Unavailable values are absent.
//!
//! # Clock source
//!
//! The machine's clock: whether it is synchronised.
//!
//! Source: adjtimex(2).
//!
//! # Softnet stats
//!
//! Packets dropped by the kernel's receive path before protocol processing.
//!
//! Source: `/proc/net/softnet_stat`, a hexadecimal line per core: processed, dropped (queue of
//! `net.core.netdev_max_backlog` full), squeezed (`netdev_budget` used up); of the whole machine.
//! Wrong when: squeezed counts are normal on a busy host; only drops lose packets.
//!
//! # Protocol counters
//!
//! Protocol counters with the kernel's names: `TcpExt.TCPTimeouts`, `Udp.RcvbufErrors`.
//!
//! Source: `/proc/net/snmp` and `/proc/net/netstat`, of the calling thread's network namespace.
//! Wrong when: other programs on the host use the network; the counters are not per process.
//!
//! # CPU config
//!
//! Processor configuration: cores, frequency governors, model.
//!
//! Source: sysfs `devices/system/cpu`, `/proc/cpuinfo`; the same in every namespace. Absent if the
//! machine lacks the feature: most virtual machines have no frequency control.

pub mod ethtool;
pub mod interrupts;
pub mod kernel_route;
pub mod network_interface;
pub mod pci;
pub mod qdisc;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

/// Returns the content of a file of /proc or /sys without white space around it; `None` if it is
/// empty or unreadable.
pub fn read_kernel_file(path: impl AsRef<Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Returns the host name; empty if it cannot be read.
pub fn read_host_name() -> String {
    read_setting("kernel.hostname").unwrap_or_default()
}

/// Returns the kernel version, as `Linux 6.18.0`; empty if it cannot be read.
pub fn read_kernel_version() -> String {
    read_setting("kernel.osrelease").map(|release| format!("Linux {release}")).unwrap_or_default()
}

/// Returns an id that changes with every boot, and is the same in all namespaces and containers.
pub fn boot_id() -> Option<String> {
    read_setting("kernel.random.boot_id")
}

/// Returns the machine's memory size.
pub fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Returns whether the kernel considers its clock synchronised (STA_UNSYNC is off).
///
/// Wrong when: the clock is maintained by a program that steps it without informing the kernel.
pub fn is_synchronised() -> io::Result<bool> {
    // SAFETY: an all-zero timex asks for nothing to be changed.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the structure lives for the call.
    let answer = unsafe { libc::adjtimex(&raw mut state) };
    crate::syscall::check_status(answer)?;
    Ok(state.status & libc::STA_UNSYNC == 0)
}

/// Totals of all cores since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SoftnetStats {
    pub processed_packets: u64,
    pub dropped_packets: u64,
    /// Number of times that work was deferred to the next poll.
    pub squeezed: u64,
}

/// Reads the current totals.
pub fn read_softnet_stat() -> io::Result<SoftnetStats> {
    let text = std::fs::read_to_string("/proc/net/softnet_stat")?;
    parse_softnet_stat(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Parses the totals; `None` if a line is malformed.
pub fn parse_softnet_stat(text: &str) -> Option<SoftnetStats> {
    let mut sums = SoftnetStats::default();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let mut next = || u64::from_str_radix(words.next()?, 16).ok();
        sums.processed_packets = sums.processed_packets.saturating_add(next()?);
        sums.dropped_packets = sums.dropped_packets.saturating_add(next()?);
        sums.squeezed = sums.squeezed.saturating_add(next()?);
    }
    Some(sums)
}

/// Time of one core since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CoreTimes {
    pub index: u32,
    /// User, system and interrupt time.
    pub busy: Duration,
    /// The part of it in software interrupts.
    pub softirq: Duration,
    /// Time that the hypervisor gave to other guests.
    pub steal: Duration,
}

/// Reads the times of every online core.
pub fn read_core_times() -> io::Result<Vec<CoreTimes>> {
    Ok(parse_core_times(&std::fs::read_to_string("/proc/stat")?))
}

/// Parses the lines of `/proc/stat` about single cores; skips all others.
pub fn parse_core_times(stat: &str) -> Vec<CoreTimes> {
    stat.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<CoreTimes> {
    let mut words = line.split_ascii_whitespace();
    let index = words.next()?.strip_prefix("cpu")?.parse().ok()?;
    let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, steal] = *ticks.first_chunk::<8>()?;
    let busy = [user, nice, system, irq, softirq].into_iter().fold(0_u64, u64::saturating_add);
    Some(CoreTimes {
        index,
        busy: ticks_to_duration(busy),
        softirq: ticks_to_duration(softirq),
        steal: ticks_to_duration(steal),
    })
}

/// Converts ticks; USER_HZ is 100 on every architecture that Linux supports.
fn ticks_to_duration(ticks: u64) -> Duration {
    Duration::from_millis(ticks.saturating_mul(10))
}

/// The maximum number of cores of any kernel configuration.
const MAX_CORES: u32 = 8192;

/// Parses a list to ascending cores; skips items that are no numbers.
pub fn parse_core_list(list: &str) -> Vec<u32> {
    let mut cores: Vec<u32> = list
        .trim()
        .split(',')
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: u32 = first.parse().ok()?;
            let last: u32 = last.parse().ok()?;
            Some(first..=last.min(MAX_CORES))
        })
        .flatten()
        .collect();
    cores.sort_unstable();
    cores.dedup();
    cores
}

/// Formats ascending cores as the kernel would.
pub fn format_core_list(cores: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &core in cores {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(core) => *last = core,
            _ => ranges.push((core, core)),
        }
    }
    let words: Vec<String> = ranges
        .into_iter()
        .map(
            |(first, last)| {
                if first == last { first.to_string() } else { format!("{first}-{last}") }
            },
        )
        .collect();
    words.join(",")
}

/// Counters by name.
pub type KernelCounters = BTreeMap<String, u64>;

/// Reads all counters of both files.
pub fn read_protocol_counters() -> io::Result<KernelCounters> {
    let mut counters =
        parse_protocol_counters(&std::fs::read_to_string("/proc/thread-self/net/snmp")?);
    counters.extend(parse_protocol_counters(&std::fs::read_to_string(
        "/proc/thread-self/net/netstat",
    )?));
    Ok(counters)
}

/// Parses pairs of lines, names above values, both prefixed with the group's name. Skips values
/// that are no counters (`Tcp.MaxConn` is -1) and unpaired lines.
pub fn parse_protocol_counters(text: &str) -> KernelCounters {
    let mut counters = KernelCounters::new();
    let mut lines = text.lines().peekable();
    while let Some(names) = lines.next() {
        let Some(values) = lines.peek() else { break };
        let (Some((group, names)), Some((other, values))) =
            (names.split_once(':'), values.split_once(':'))
        else {
            continue;
        };
        if group != other {
            continue;
        }
        let values = values.split_ascii_whitespace();
        for (name, value) in names.split_ascii_whitespace().zip(values) {
            if let Ok(value) = value.parse() {
                counters.insert(format!("{group}.{name}"), value);
            }
        }
        lines.next();
    }
    counters
}

/// Returns the counters that increased from `before` to `after`, with their increase.
pub fn counter_growth(before: &KernelCounters, after: &KernelCounters) -> KernelCounters {
    after
        .iter()
        .filter_map(|(name, now)| {
            let then = before.get(name).copied().unwrap_or(0);
            let grown = now.checked_sub(then).filter(|&grown| grown > 0)?;
            Some((name.clone(), grown))
        })
        .collect()
}

const FOLDER: &str = "/sys/devices/system/cpu";

/// Returns the online cores.
pub fn online_cores() -> Vec<u32> {
    read_kernel_file(format!("{FOLDER}/online"))
        .map_or_else(Vec::new, |list| parse_core_list(&list))
}

fn governor_file(core: u32) -> String {
    format!("{FOLDER}/cpu{core}/cpufreq/scaling_governor")
}

/// Returns the frequency governor of each online core that has one, with the core's number.
///
/// # Errors
/// `NotFound` if no core has a governor.
pub fn read_governors() -> io::Result<Vec<(u32, String)>> {
    let found: Vec<(u32, String)> = online_cores()
        .into_iter()
        .filter_map(|core| Some((core, read_kernel_file(governor_file(core))?)))
        .collect();
    if found.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(found)
}

/// Sets the governor of one core.
///
/// # Errors
/// `PermissionDenied` without root, `InvalidInput` for a governor that the driver lacks.
pub fn set_governor(core: u32, governor: &str) -> io::Result<()> {
    fs::write(governor_file(core), governor)
}

/// Name of the processor, and whether it is virtual.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuModel {
    /// Absent on architectures without a model name.
    pub name: Option<String>,
    /// Absent on architectures without this flag.
    pub hypervisor: Option<bool>,
}

/// Reads the model of the first processor.
pub fn read_cpu_model() -> io::Result<CpuModel> {
    Ok(parse_cpu_model(&fs::read_to_string("/proc/cpuinfo")?))
}

/// Parses the first processor of `/proc/cpuinfo`.
pub fn parse_cpu_model(cpuinfo: &str) -> CpuModel {
    let value = |name: &str| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim())
        })
    };
    CpuModel {
        name: value("model name").map(str::to_owned),
        hypervisor: value("flags")
            .map(|flags| flags.split_ascii_whitespace().any(|f| f == "hypervisor")),
    }
}

/// Reads a setting, without the newline. Returns `None` if it is unreadable or does not exist (some
/// settings are hidden in network namespaces).
pub fn read_setting(name: &str) -> Option<String> {
    let text = std::fs::read_to_string(setting_path(name).ok()?).ok()?;
    Some(text.trim_end().to_owned())
}

/// Reads the exact value from the kernel, except for the final newline.
///
/// # Errors
/// `NotFound` if the kernel or this network namespace has no such setting; `InvalidInput` for an
/// invalid name.
pub fn read_setting_exact(name: &str) -> io::Result<String> {
    let mut text = std::fs::read_to_string(setting_path(name)?)?;
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}

/// Writes a setting.
///
/// # Errors
/// `PermissionDenied` without root, or if only the machine's initial network namespace may write
/// it; `InvalidInput` for a value that the kernel rejects; otherwise as in [`read_setting_exact`].
pub fn write_setting(name: &str, value: &str) -> io::Result<()> {
    let mut to = std::fs::File::options().write(true).open(setting_path(name)?)?;
    // A single call, because the kernel takes each write as a complete value.
    let line = format!("{value}\n");
    let written = io::Write::write(&mut to, line.as_bytes())?;
    if written == line.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Returns whether the setting is writable here; in a network namespace, machine-wide ones are
/// read-only even for root. `None` if there is no such setting.
pub fn is_writable(name: &str) -> Option<bool> {
    let file = std::fs::metadata(setting_path(name).ok()?).ok()?;
    Some(!file.permissions().readonly())
}

/// Returns the path below `/proc/sys`. A slash in a name is a dot within a component (`eth0/100`).
fn setting_path(name: &str) -> io::Result<PathBuf> {
    let swap = |c| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    let path: String = name.chars().map(swap).collect();
    let whole = path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if !whole || name.contains('\0') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(PathBuf::from("/proc/sys").join(path))
}

/// Reads a setting with a single number.
pub fn read_number(name: &str) -> Option<u64> {
    read_setting(name)?.parse().ok()
}

/// Reads a setting with three numbers: minimum, default, maximum.
pub fn read_triple(name: &str) -> Option<[u64; 3]> {
    parse_triple(&read_setting(name)?)
}

/// Reads `net.ipv4.tcp_mem` and converts it from pages to bytes.
pub fn tcp_memory_bytes() -> Option<[u64; 3]> {
    let page = crate::memory_region::page_bytes() as u64;
    Some(read_triple("net.ipv4.tcp_mem")?.map(|pages| pages.saturating_mul(page)))
}

fn parse_triple(text: &str) -> Option<[u64; 3]> {
    let numbers: Vec<u64> =
        text.split_ascii_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_knows_whether_its_clock_is_synchronised() {
        is_synchronised().expect("adjtimex");
    }
}

#[cfg(test)]
mod softnet_stats_tests {
    use super::*;

    #[test]
    fn cores_are_summed_in_hexadecimal() {
        let text = "00000014 00000002 0000000a 00000000\n00001248 00000001 00000000 00000000\n";
        let expect =
            SoftnetStats { processed_packets: 0x14 + 0x1248, dropped_packets: 3, squeezed: 10 };
        assert_eq!(parse_softnet_stat(text), Some(expect));
        assert_eq!(parse_softnet_stat("zz 0 0\n"), None);
        assert_eq!(parse_softnet_stat("1 2\n"), None);
        read_softnet_stat().expect("this machine's");
    }
}

#[cfg(test)]
mod core_times_tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_sum_line_and_the_rest_are_passed_over() {
        let text = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu3 1 2 3 100 5 6 7 8 0 0\nintr 1 2 3\n";
        let expect = CoreTimes {
            index: 3,
            busy: Duration::from_millis(190),
            softirq: Duration::from_millis(70),
            steal: Duration::from_millis(80),
        };
        assert_eq!(parse_core_times(text), [expect]);
    }

    #[test]
    fn this_machine_has_a_core() {
        assert!(!read_core_times().expect("/proc/stat").is_empty());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_fail(text in "(cpu[0-9]{0,3}( [0-9]{0,22}){0,12}\n|.{0,40}\n){0,6}") {
            parse_core_times(&text);
        }
    }
}

#[cfg(test)]
mod core_list_tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_and_single_cores_are_told_apart() {
        assert_eq!(parse_core_list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(parse_core_list("5"), [5]);
        assert_eq!(parse_core_list("\n"), [0; 0]);
        assert_eq!(parse_core_list("x,2-y,3-1,4"), [4]);
        assert_eq!(format_core_list(&[0, 1, 2, 3, 8]), "0-3,8");
        assert_eq!(format_core_list(&[]), "");
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(cores in proptest::collection::btree_set(0..MAX_CORES, 0..40)) {
            let cores: Vec<u32> = cores.into_iter().collect();
            prop_assert_eq!(parse_core_list(&format_core_list(&cores)), cores);
        }

        #[test]
        fn no_list_takes_more_than_its_bound(list in "([0-9]{1,10}-[0-9]{1,10},){0,3}") {
            prop_assert!(parse_core_list(&list).len() <= MAX_CORES as usize + 1);
        }
    }
}

#[cfg(test)]
mod protocol_counters_tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_stand_over_their_values() {
        let text = "Ip: A B\nIp: 1 2\nTcp: C D\nTcp: -1 4\n";
        let expect = [("Ip.A", 1), ("Ip.B", 2), ("Tcp.D", 4)];
        let expect: KernelCounters = expect.map(|(name, value)| (name.to_owned(), value)).into();
        assert_eq!(parse_protocol_counters(text), expect);
    }

    #[test]
    fn only_what_grew_is_told() {
        let before = parse_protocol_counters("T: a b c\nT: 5 5 5\n");
        let after = parse_protocol_counters("T: a b c d\nT: 5 9 1 2\n");
        let expect: KernelCounters = [("T.b".to_owned(), 4), ("T.d".to_owned(), 2)].into();
        assert_eq!(counter_growth(&before, &after), expect);
    }

    #[test]
    fn this_kernel_counts_tcp() {
        let counters = read_protocol_counters().expect("/proc");
        assert!(counters.contains_key("Tcp.RetransSegs"));
        assert!(counters.contains_key("TcpExt.TCPTimeouts"));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_fail(text in "([A-Z]{1,2}:( -?[a-z0-9]{0,22}){0,6}\n|.{0,40}\n){0,8}") {
            let counters = parse_protocol_counters(&text);
            prop_assert!(counter_growth(&counters, &counters).is_empty());
        }
    }
}

#[cfg(test)]
mod cpu_config_tests {
    use super::*;

    #[test]
    fn a_hypervisor_is_known_by_its_flag() {
        let text = "processor\t: 0\nmodel name\t: A CPU @ 2.60GHz\nflags\t\t: fpu hypervisor lm\n";
        let model = parse_cpu_model(text);
        assert_eq!(model.name.as_deref(), Some("A CPU @ 2.60GHz"));
        assert_eq!(model.hypervisor, Some(true));
        let bare = parse_cpu_model("flags : fpu lm\n");
        assert_eq!(bare, CpuModel { name: None, hypervisor: Some(false) });
        assert_eq!(parse_cpu_model("Features : fp asimd\n"), CpuModel::default());
    }

    #[test]
    fn this_machine_has_cores_online() {
        assert!(online_cores().contains(&0));
    }
}

#[cfg(test)]
mod sysctl_values_tests {
    use super::*;

    #[test]
    fn a_triple_is_three_numbers_and_nothing_else() {
        assert_eq!(parse_triple("4096\t131072\t33554432"), Some([4096, 131_072, 33_554_432]));
        for wrong in ["", "1 2", "1 2 3 4", "1 2 x", "-1 2 3"] {
            assert_eq!(parse_triple(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_name_leads_nowhere_but_below_the_settings() {
        for wrong in ["", ".", "net..core", "../etc", "net.//.x", ".net", "a.", "a\0b", "/./.etc"] {
            let error = setting_path(wrong).expect_err(wrong);
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{wrong:?}");
        }
        let vlan = setting_path("net.ipv4.conf.eth0/100.forwarding").expect("a VLAN's setting");
        assert!(vlan.ends_with("conf/eth0.100/forwarding"));
    }

    #[test]
    fn the_exact_value_keeps_its_tabs() {
        let exact = read_setting_exact("net.ipv4.tcp_rmem").expect("tcp_rmem");
        assert_eq!(exact.split('\t').count(), 3, "{exact:?}");
        assert!(!exact.ends_with('\n'));
        let sealed = "net.ipv4.tcp_available_congestion_control";
        assert_eq!(is_writable(sealed), Some(false));
        assert_eq!(is_writable("net.ipv4.no_such_setting"), None);
    }

    #[test]
    fn a_setting_that_does_not_exist_is_absent() {
        let missing = read_setting_exact("net.ipv4.no_such_setting").expect_err("absent");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert_eq!(read_setting("net.ipv4.no_such_setting"), None);
        assert!(read_triple("net.ipv4.tcp_rmem").is_some());
    }
}
