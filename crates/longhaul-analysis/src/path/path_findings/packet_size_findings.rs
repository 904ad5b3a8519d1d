//! Findings about packet sizes: dropped packets, and TCP segments that do not fit.
//!
//! # Stripped TCP options
//!
//! Detects TCP options that are missing although both hosts offer them.

use super::PathFindingInput;
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::observation::TcpOptions;
use longhaul_model::report::v1::path::{MtuProbe, MtuSearch};

/// IP and TCP without options; with IPv6 20 bytes more.
const HEADERS_V4: u32 = 40;
const HEADERS_V6: u32 = 60;
/// The timestamp option, which some kernels subtract from the segment size they report.
const TIMESTAMPS: u32 = 12;

/// Reports that larger packets are dropped silently.
pub fn find_black_hole(case: &PathFindingInput) -> Option<ReportFinding> {
    let mtu = case.analysis.path_mtu.as_ref()?;
    let search = case.observation.mtu.as_ref()?;
    if !mtu.black_hole {
        return None;
    }
    let size = mtu.bytes;
    let mut found = ReportFinding::new(
        "mtu_black_hole",
        0.9,
        format!(
            "PMTU black hole: IP packets above {size} bytes are lost without an ICMP message; the interface MTU is {}",
            search.local_bytes
        ),
    );
    found.supports.extend(describe_vanished(search, size));
    if let Some(probe) = find_largest_arrived(search) {
        found.support(format!("{size} bytes: {} of {} arrived", probe.arrived, probe.sent));
    }
    let text = "Let the ICMP messages \"fragmentation needed\" and \"packet too big\" through, or find \
         the link whose MTU is too small";
    found.advise("path", text);
    let text = "Until then enable TCP's own MTU probing (RFC 4821)";
    found.advise("sender", text).command =
        Some(String::from("sysctl -w net.ipv4.tcp_mtu_probing=1"));
    Some(found)
}

fn describe_vanished(search: &MtuSearch, passes: u32) -> Option<String> {
    let lost =
        search.probes.iter().filter(|probe| probe.packet_bytes > passes && probe.arrived == 0);
    let least = lost.min_by_key(|probe| probe.packet_bytes)?;
    Some(format!(
        "{} bytes: 0 of {} arrived, and no router sent an ICMP message",
        least.packet_bytes, least.sent
    ))
}

fn find_largest_arrived(search: &MtuSearch) -> Option<&MtuProbe> {
    let arrived = search.probes.iter().filter(|probe| probe.arrived > 0);
    arrived.max_by_key(|probe| probe.packet_bytes)
}

/// Reports that the path carries less than the interface, as a router reported.
pub fn find_mtu_below_interface(case: &PathFindingInput) -> Option<ReportFinding> {
    let mtu = case.analysis.path_mtu.as_ref()?;
    let search = case.observation.mtu.as_ref()?;
    if mtu.black_hole || mtu.refused_bytes.is_none() || mtu.bytes >= search.local_bytes {
        return None;
    }
    let (passes, local) = (mtu.bytes, search.local_bytes);
    let summary = format!("Path MTU {passes} bytes, interface MTU {local} bytes");
    let mut found = ReportFinding::new("mtu_below_interface", 0.95, summary);
    let mut probes = search.probes.iter();
    if let Some(by) = probes.find_map(|probe| probe.refused_by.as_ref()) {
        found.support(format!("reported by {by}"));
    }
    if case.observation.options.is_some() {
        found.contradict("TCP learns the path MTU from the router; throughput hardly suffers");
    }
    let text = format!("For packets of {local} bytes end to end, raise the MTU of that link");
    found.advise("path", text);
    Some(found)
}

/// Returns the segment size that both ends use.
fn find_segment_size(case: &PathFindingInput) -> Option<u32> {
    let options = case.observation.options.as_ref()?;
    [options.mss_here_bytes, options.mss_there_bytes].into_iter().flatten().min()
}

fn select_header_bytes(case: &PathFindingInput) -> u32 {
    if case.observation.address.contains(':') { HEADERS_V6 } else { HEADERS_V4 }
}

/// Reports that a device made the segments smaller than the path needs.
pub fn find_clamped_segments(case: &PathFindingInput) -> Option<ReportFinding> {
    let (mtu, mss) = (case.analysis.path_mtu.as_ref()?, find_segment_size(case)?);
    let fits = mtu.bytes.saturating_sub(select_header_bytes(case));
    if mss.saturating_add(TIMESTAMPS) >= fits {
        return None;
    }
    let summary = format!("TCP uses an MSS of {mss} bytes, but the path allows {fits}");
    let mut found = ReportFinding::new("mss_clamped", 0.7, summary);
    found.support(format!("IP packets of {} bytes pass end to end", mtu.bytes));
    found.contradict("a host may be configured for small segments (route, program option)");
    found.advise("path", "Look for a firewall or tunnel that rewrites the MSS option");
    Some(found)
}

/// Reports segments that the path cannot carry: TCP depends on routers to report that.
pub fn find_oversized_segments(case: &PathFindingInput) -> Option<ReportFinding> {
    let (mtu, mss) = (case.analysis.path_mtu.as_ref()?, find_segment_size(case)?);
    mtu.refused_bytes?;
    let fits = mtu.bytes.saturating_sub(select_header_bytes(case));
    if mss <= fits {
        return None;
    }
    let told = !mtu.black_hole;
    let summary = format!("The negotiated MSS is {mss} bytes, but the path allows {fits}");
    let mut found = ReportFinding::new("mss_above_path_mtu", if told { 0.5 } else { 0.9 }, summary);
    if told {
        found.contradict("a router informs the sender, so TCP adapts after its first segments");
    } else {
        found.support("no router informs the sender: full segments are lost and transfers stall");
    }
    found.advise("path", format!("Clamp the MSS to {fits} bytes at the entry of the small link"));
    Some(found)
}

/// A TCP option.
struct TcpOptionKind {
    name: &'static str,
    has: fn(&TcpOptions) -> bool,
    /// The consequence of its loss.
    cost: &'static str,
}

const KINDS: [TcpOptionKind; 3] = [
    TcpOptionKind {
        name: "window scaling",
        has: |o| o.window_scaling,
        cost: "at most 64 KiB in flight per stream",
    },
    TcpOptionKind {
        name: "selective acknowledgement",
        has: |o| o.sack,
        cost: "only one lost segment per RTT can be repaired",
    },
    TcpOptionKind {
        name: "timestamps",
        has: |o| o.timestamps,
        cost: "few RTT samples, and no protection against wrapped sequence numbers",
    },
];

/// Reports options that both hosts offer but that are not in force at both.
pub fn find_stripped_options(case: &PathFindingInput) -> Option<ReportFinding> {
    let options = case.observation.options.as_ref()?;
    let (here, there) = (options.offered_here?, options.offered_there?);
    let in_force = [options.here, options.there];
    let gone = |kind: &&TcpOptionKind| {
        let missing = in_force.iter().flatten().any(|end| !(kind.has)(end));
        (kind.has)(&here) && (kind.has)(&there) && missing
    };
    let lost: Vec<&TcpOptionKind> = KINDS.iter().filter(gone).collect();
    let cost = lost.first()?.cost;
    let names: Vec<&str> = lost.iter().map(|kind| kind.name).collect();
    let summary = format!("A middlebox strips TCP options: {} ({cost})", names.join(", "));
    let mut found = ReportFinding::new("options_stripped", 0.9, summary);
    found.support("both hosts have them enabled, but the connection did not negotiate them");
    let far = in_force.iter().flatten().count();
    if far < 2 {
        found.contradict("only one end reported the negotiated options");
        found.confidence_ratio = 0.8;
    }
    found.advise("path", "Look for a firewall or WAN accelerator that normalises TCP options");
    Some(found)
}
