//! Selective acknowledgements or timestamps missing on the connection.
//!
//! We would see: the option's bit absent although the sysctl is on at both ends (stripped), or off
//! at one of them. Refuted by: the bit. Needs: `tcpi_options`, the two sysctls.
//! To do: switch it on, or find the device. Source: RFC 2018, RFC 7323.
//! Wrong when: the sysctls could not be read; then no device is blamed.

use super::{DiagnosisCase, FindingAdvice, build_finding, name_of_host};
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
    let off = [(case.sender(), "sender"), (case.receiver(), "receiver")]
        .into_iter()
        .find(|(end, _)| end.host.sysctl.get(sysctl).is_some_and(|v| v.trim() == "0"));
    let known = [case.sender(), case.receiver()].iter().all(|e| e.host.sysctl.contains_key(sysctl));
    let culprit = match off {
        Some((end, place)) => format!("it is disabled on {}", name_of_host(&end.host, place)),
        None if known => String::from("both ends offer it: a middlebox strips the option"),
        None => String::from("a host or a middlebox is the cause"),
    };
    let mut found = build_finding(
        case,
        "options_stripped",
        format!("Not negotiated: {name} ({cost}); {culprit}"),
    );
    found.confidence_ratio = 1.0;
    found.advice.push(match off {
        Some((_, place)) => FindingAdvice {
            command: Some(format!("sysctl -w {sysctl}=1")),
            ..FindingAdvice::new(place, format!("Enable {sysctl}"))
        },
        None => FindingAdvice::new(
            "path",
            "Look for a firewall or WAN accelerator that normalises TCP options",
        ),
    });
    Some(found)
}
