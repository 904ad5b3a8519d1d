//! A window limited to 64 KiB because window scaling is not in force.
//!
//! We would see: the scaling option absent on the connection, windows of at most 65535 bytes.
//! Refuted by: any larger window. Needs: `tcpi_options`, `tcpi_snd_wnd`.
//! To do: switch it on where it is off; if it is on at both ends, a middlebox strips it.
//!
//! Source: RFC 7323, section 2. Units: bytes. Wrong when: the buffer itself is below 64 KiB, where
//! scaling changes nothing.

use super::{DiagnosisCase, FindingAdvice, build_finding, name_of_host, to_rate};
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::observation::HostFacts;

/// The maximum window in 16 bits.
const UNSCALED_BYTES: u64 = 65_535;

pub fn diagnose_window_scaling(case: &DiagnosisCase) -> Option<ReportFinding> {
    let streams = &case.scene.observation.streams;
    let unscaled = streams.iter().any(|s| {
        let options = [s.sender.options, s.receiver.options];
        options.into_iter().flatten().any(|o| !o.window_scaling)
    });
    let windows = streams.iter().flat_map(|s| &s.sender.samples);
    let widest = windows.filter_map(|s| s.tcp.as_ref()?.peer_window_bytes).max();
    if !unscaled || widest.is_some_and(|bytes| bytes > UNSCALED_BYTES) {
        return None;
    }
    let allowed = case.allowed_bps(UNSCALED_BYTES)?;
    let off = [(case.sender(), "sender"), (case.receiver(), "receiver")]
        .into_iter()
        .find(|(end, _)| is_scaling_off(&end.host));
    let culprit = off.map_or_else(
        || String::from("both ends offer it: a middlebox strips the option"),
        |(end, place)| format!("it is disabled on {}", name_of_host(&end.host, place)),
    );
    let summary = format!(
        "Window scaling not negotiated: at most 64 KiB / {} RTT per stream, {} in total; {culprit}",
        case.rtt_text(),
        to_rate(allowed),
    );
    let mut found = build_finding(case, "no_window_scaling", summary);
    found.support(format!("no window exceeded {UNSCALED_BYTES} B"));
    found.advice.push(match off {
        Some((_, place)) => FindingAdvice {
            command: Some(String::from("sysctl -w net.ipv4.tcp_window_scaling=1")),
            ..FindingAdvice::new(place, "Enable window scaling")
        },
        None => FindingAdvice::new(
            "path",
            "Find the middlebox that strips TCP options; until then use parallel streams",
        ),
    });
    Some(found)
}

fn is_scaling_off(host: &HostFacts) -> bool {
    host.sysctl.get("net.ipv4.tcp_window_scaling").is_some_and(|value| value.trim() == "0")
}
