//! Selective acknowledgements or timestamps missing on the connection.
//!
//! We would see: the option's bit absent although the sysctl is on at both ends (stripped), or off
//! at one of them. Refuted by: the bit. Needs: `tcpi_options`, the two sysctls.
//! To do: switch it on, or find the device. Source: RFC 2018, RFC 7323.
//! Wrong when: the sysctls could not be read; then no device is blamed.
//!
//! # Window scaling
//!
//! A window limited to 64 KiB because window scaling is not in force.
//!
//! We would see: the scaling option absent on the connection, windows of at most 65535 bytes.
//! Refuted by: any larger window. Needs: `tcpi_options`, `tcpi_snd_wnd`.
//! To do: switch it on where it is off; if it is on at both ends, a middlebox strips it.
//!
//! Source: RFC 7323, section 2. Units: bytes. Wrong when: the buffer itself is below 64 KiB, where
//! scaling changes nothing.

use super::{DiagnosisCase, build_finding, name_of_host, to_rate};
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::observation::ObservedStream;

pub fn diagnose_stripped_options(case: &DiagnosisCase) -> Option<ReportFinding> {
    let streams = &case.scene.observation.streams;
    let missing =
        |has: fn(&ObservedStream) -> Option<bool>| streams.iter().any(|s| has(s) == Some(false));
    let sack = missing(|s| s.sender.options.map(|o| o.sack));
    let timestamps = missing(|s| s.sender.options.map(|o| o.timestamps));
    let (name, sysctl, cost) = match (sack, timestamps) {
        (true, _) => ("SACK", "net.ipv4.tcp_sack", "only one lost segment per RTT can be repaired"),
        (false, true) => (
            "TCP timestamps",
            "net.ipv4.tcp_timestamps",
            "few RTT samples, and no protection against wrapped sequence numbers",
        ),
        (false, false) => return None,
    };
    let (off, culprit) = find_disabled_end(case, sysctl);
    let mut found = build_finding(
        case,
        "options_stripped",
        format!("Not negotiated: {name} ({cost}); {culprit}"),
    );
    found.confidence_ratio = 1.0;
    if let Some(place) = off {
        found.advise(place, format!("Enable {sysctl}")).command =
            Some(format!("sysctl -w {sysctl}=1"));
    } else {
        found.advise("path", "Look for a firewall or WAN accelerator that normalises TCP options");
    }
    Some(found)
}

/// Returns the end at which the option is disabled, if any, and who is to blame for its absence.
fn find_disabled_end(case: &DiagnosisCase, sysctl: &str) -> (Option<&'static str>, String) {
    let ends = [(case.sender(), "sender"), (case.receiver(), "receiver")];
    let settings = ends.map(|(end, _)| end.host.sysctl.get(sysctl));
    let off = settings.iter().position(|value| value.is_some_and(|value| value.trim() == "0"));
    let culprit = match off.map(|i| ends[i]) {
        Some((end, place)) => format!("it is disabled on {}", name_of_host(&end.host, place)),
        None if settings.iter().all(Option::is_some) => {
            String::from("both ends offer it: a middlebox strips the option")
        }
        None => String::from("a host or a middlebox is the cause"),
    };
    (off.map(|i| ends[i].1), culprit)
}

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
    let (off, culprit) = find_disabled_end(case, "net.ipv4.tcp_window_scaling");
    let summary = format!(
        "Window scaling not negotiated: at most 64 KiB / {} RTT per stream, {} in total; {culprit}",
        case.rtt_text(),
        to_rate(allowed),
    );
    let mut found = build_finding(case, "no_window_scaling", summary);
    found.support(format!("no window exceeded {UNSCALED_BYTES} B"));
    if let Some(place) = off {
        found.advise(place, "Enable window scaling").command =
            Some(String::from("sysctl -w net.ipv4.tcp_window_scaling=1"));
    } else {
        let text = "Find the middlebox that strips TCP options; until then use parallel streams";
        found.advise("path", text);
    }
    Some(found)
}
