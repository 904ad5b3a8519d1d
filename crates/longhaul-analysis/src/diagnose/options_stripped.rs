//! Selective acknowledgements or timestamps missing on the connection.
//!
//! We would see: the option's bit absent although the sysctl is on at both ends (stripped), or off
//! at one of them. Refuted by: the bit. Needs: `tcpi_options`, the two sysctls.
//! To do: switch it on, or find the device. Source: RFC 2018, RFC 7323.
//! Wrong when: the sysctls could not be read; then no device is blamed.

use super::{DiagnosisCase, FindingAdvice, build_advice, build_finding, name_of_host};
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::observation::ObservedStream;

pub fn diagnose_stripped_options(case: &DiagnosisCase) -> Option<ReportFinding> {
    let streams = &case.scene.observation.streams;
    let missing =
        |has: fn(&ObservedStream) -> Option<bool>| streams.iter().any(|s| has(s) == Some(false));
    let sack = missing(|s| s.sender.options.map(|o| o.sack));
    let timestamps = missing(|s| s.sender.options.map(|o| o.timestamps));
    let (name, sysctl, cost) = match (sack, timestamps) {
        (true, _) => (
            "Selective acknowledgement",
            "net.ipv4.tcp_sack",
            "one lost segment per round trip can be repaired",
        ),
        (false, true) => (
            "The timestamp option",
            "net.ipv4.tcp_timestamps",
            "RTTs are measured rarely and old segments cannot be told above 4 GiB of sequence",
        ),
        (false, false) => return None,
    };
    let off = [(case.sender(), "sender"), (case.receiver(), "receiver")]
        .into_iter()
        .find(|(end, _)| end.host.sysctl.get(sysctl).is_some_and(|v| v.trim() == "0"));
    let known = [case.sender(), case.receiver()]
        .iter()
        .all(|e| e.host.sysctl.contains_key(sysctl));
    let culprit = match off {
        Some((end, place)) => format!("{} has it switched off", name_of_host(&end.host, place)),
        None if known => String::from("both ends have it on, so a device between them strips it"),
        None => String::from("whether a host or a device between them is the cause is not known"),
    };
    let mut found = build_finding(
        case,
        "options_stripped",
        format!("{name} is not in force ({cost}); {culprit}"),
    );
    found.confidence_ratio = 1.0;
    found.advice.push(match off {
        Some((_, place)) => FindingAdvice {
            command: Some(format!("sysctl -w {sysctl}=1")),
            ..build_advice(place, format!("Switch {sysctl} on"))
        },
        None => build_advice(
            "path",
            String::from("Look for a firewall or accelerator that normalises TCP options"),
        ),
    });
    Some(found)
}
