//! What this host and this program are, as iperf3 says it.

use jiff::Timestamp;
use longhaul_iperf3::RELEASE;
use std::fs;

/// As JSON has it: scripts want it to begin with `iperf 3.`.
pub fn program() -> String {
    format!("iperf {RELEASE} (longhaul {})", env!("CARGO_PKG_VERSION"))
}

/// Kernel, host, release and machine, on one line; what the system does not tell is left out.
pub fn system_info() -> String {
    let told = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?;
        Some(text.trim_end().to_owned())
    };
    let parts = [
        told("ostype"),
        told("hostname"),
        told("osrelease"),
        told("version"),
        Some(std::env::consts::ARCH.to_owned()),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join(" ")
}

/// Text and Unix time of this moment.
pub fn now() -> (String, i64) {
    let now = Timestamp::now();
    let text = now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    (text, now.as_second())
}

/// The answer to `-v`.
pub fn version() -> String {
    format!(
        "{}\n{}\nOptional features available: CPU affinity setting, TCP congestion algorithm \
         setting, sendfile / zerocopy, socket pacing, authentication, bind to device\n",
        program(),
        system_info()
    )
}
