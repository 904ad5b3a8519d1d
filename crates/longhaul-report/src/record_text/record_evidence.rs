//! Command lines and settings of both ends, as text.

use crate::number_format::format_grouped;
use crate::throughput_text::describe_plan;
use longhaul_model::report::v1::ThroughputReport;
use longhaul_model::report::v1::observation::{EndObservation, StreamEnd};
use std::fmt::Write;

/// Renders the command lines of both ends with their versions.
pub fn render_commands(run: &ThroughputReport) -> String {
    let mut text = String::new();
    let (near, far) = (&run.run.initiator, &run.run.responder);
    let parties =
        [("client", near, Some(&run.run.longhaul)), ("server", far, far.longhaul.as_ref())];
    for ((role, party, version), end) in
        parties.into_iter().zip(run.observation.initiator_and_responder())
    {
        let told = end.program.as_ref();
        let version = told.map(|it| &it.longhaul).or(version);
        let version = version.map_or("unknown", String::as_str);
        let _ = writeln!(text, "{role} {}, longhaul {version}", party.host);
        let command = told.and_then(|it| it.command.as_deref());
        let _ = writeln!(text, "  {}", command.unwrap_or("command line not reported"));
    }
    let _ = writeln!(text, "requested of both: {}", describe_plan(&run.plan));
    text
}

/// Renders the responder's log of this run and its counters.
pub fn render_responder_output(run: &ThroughputReport) -> String {
    let seen = &run.observation;
    let [_, far] = seen.initiator_and_responder();
    let mut text = String::new();
    match &far.program {
        Some(told) if !told.log.is_empty() => {
            text.push_str(
                "log of this run until its results were sent, times since the session started:\n",
            );
            for line in &told.log {
                let _ = writeln!(text, "  {line}");
            }
        }
        _ => text.push_str("no log reported (add one with --attach)\n"),
    }
    let _ =
        writeln!(text, "\ncounted by the server, {} bytes in total:", format_grouped(far.bytes));
    for stream in &seen.streams {
        let (end, calls) =
            if seen.forward { (&stream.receiver, "reads") } else { (&stream.sender, "writes") };
        let _ = writeln!(
            text,
            "  stream {}: {} bytes in {:.6} s, starting at {:.6} s{}",
            stream.index,
            format_grouped(end.bytes),
            to_seconds(end.duration_us),
            to_seconds(end.started_us),
            describe_calls(end, calls),
        );
        if let Some(error) = &end.error {
            let _ = writeln!(text, "    ended early: {error}");
        }
    }
    let counters = far.protocol.iter().chain(&far.interface);
    for (number, (name, grown)) in counters.enumerate() {
        if number == 0 {
            text.push_str("\nkernel counters that increased during the run:\n");
        }
        let _ = writeln!(text, "  {name} {}", format_grouped(*grown));
    }
    text
}

/// Describes the calls and their time, if the end reports them.
fn describe_calls(end: &StreamEnd, calls: &str) -> String {
    let counted = end.calls.map(|n| format!("; {} {calls}", format_grouped(n)));
    let within = end.blocked_us.map(|us| format!(", {:.6} s blocked in them", to_seconds(us)));
    [counted, within].into_iter().flatten().collect()
}

fn to_seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// Renders an end's report of its configuration.
pub fn render_configuration(end: &EndObservation) -> String {
    let host = &end.host;
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name} = {value}");
    };
    let triple = |it: [u64; 3]| format!("{} {} {}", it[0], it[1], it[2]);
    line("host.name", &host.name);
    line("host.kernel", &host.kernel);
    line("host.cores", &host.cores.to_string());
    for (name, value) in [
        ("net.ipv4.tcp_rmem", host.tcp_rmem_bytes.map(triple)),
        ("net.ipv4.tcp_wmem", host.tcp_wmem_bytes.map(triple)),
        ("net.core.rmem_max", host.rmem_max_bytes.map(|it| it.to_string())),
        ("net.core.wmem_max", host.wmem_max_bytes.map(|it| it.to_string())),
        ("net.ipv4.tcp_congestion_control", host.congestion_control.clone()),
    ] {
        line(name, value.as_deref().unwrap_or("could not be read"));
    }
    for (name, value) in &host.sysctl {
        line(name, value);
    }
    if let Some(interface) = &host.interface {
        line("interface.name", &interface.name);
        if let Some(mtu) = interface.mtu_bytes {
            line("interface.mtu", &mtu.to_string());
        }
        if let Some(speed) = interface.speed_bps {
            line("interface.speed_bps", &speed.to_string());
        }
    }
    text
}
