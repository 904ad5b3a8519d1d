//! Command lines and settings of both ends, as plain text.

use crate::render::text::asked;
use longhaul_model::report::v1::Throughput;
use longhaul_model::report::v1::host;
use longhaul_model::report::v1::observation::End;
use std::fmt::Write;

/// Options whose value is nobody's business.
const SECRET: [&str; 1] = ["--token"];

/// A command line as typed, with its secrets left out.
pub fn without_secrets(words: impl Iterator<Item = String>) -> String {
    let mut shown = Vec::new();
    let mut hide = false;
    for word in words {
        let name = word.split('=').next().unwrap_or_default();
        if std::mem::take(&mut hide) {
            shown.push("***".to_owned());
        } else if SECRET.contains(&word.as_str()) {
            hide = true;
            shown.push(word);
        } else if SECRET.contains(&name) {
            shown.push(format!("{name}=***"));
        } else {
            shown.push(quoted(&word));
        }
    }
    shown.join(" ")
}

/// As a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

pub fn commands(run: &Throughput, command: Option<&str>) -> String {
    let mut text = String::new();
    let (near, far) = (&run.run.initiator, &run.run.responder);
    let version = |it: &Option<String>| it.clone().unwrap_or_else(|| "unknown".to_owned());
    let typed = command.unwrap_or("not known: the run is from the archive");
    let _ = writeln!(
        text,
        "initiator {}, longhaul {}",
        near.host, run.run.longhaul
    );
    let _ = writeln!(text, "  {typed}");
    let _ = writeln!(text, "  asked: {}", asked(&run.plan));
    let _ = writeln!(
        text,
        "responder {}, longhaul {}",
        far.host,
        version(&far.longhaul)
    );
    let _ = writeln!(
        text,
        "  longhaul serve: it does what the initiator asks, and its options are its own; attach its \
         log with --attach"
    );
    text
}

/// What an end said of itself, and what was read of it on the spot.
pub fn configuration(end: &End, read: Option<&host::Observation>) -> String {
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
        (
            "net.core.rmem_max",
            host.rmem_max_bytes.map(|it| it.to_string()),
        ),
        (
            "net.core.wmem_max",
            host.wmem_max_bytes.map(|it| it.to_string()),
        ),
        (
            "net.ipv4.tcp_congestion_control",
            host.congestion_control.clone(),
        ),
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
    if let Some(read) = read {
        text.push_str("\nread by this host right after the run:\n");
        for (name, value) in &read.readings {
            let _ = writeln!(text, "{name} = {value}");
        }
        for (name, why) in &read.unread {
            let _ = writeln!(text, "{name}: could not be read: {why}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_keeps_its_secrets() {
        let shown = |line: &str| without_secrets(line.split(' ').map(str::to_owned));
        let expected = "longhaul record far --token *** -P 4 --token=***";
        assert_eq!(
            shown("longhaul record far --token abc -P 4 --token=abc"),
            expected
        );
        let odd = ["longhaul", "a b", "it's", ""].map(str::to_owned);
        assert_eq!(
            without_secrets(odd.into_iter()),
            "longhaul 'a b' 'it'\\''s' ''"
        );
    }
}
