//! What a command in a host sees of the machine: names for the ends and routers, its own devices.
//!
//! Names are a hosts file shown in the place of `/etc/hosts`; `/sys` is mounted anew, as it shows
//! the devices of the namespace in which it was mounted.

use crate::engine::{ADDRESSES, router_addresses, routes};
use crate::spec::PathSpec;
use longhaul_sys::{mount, process};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

/// The hosts file of a path.
fn hosts_file(spec: &PathSpec) -> String {
    let mut text = String::from("127.0.0.1 localhost\n::1 localhost ip6-localhost\n");
    let ends = ADDRESSES;
    let mut line = |address: String, name: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{address} {name}");
    };
    line(ends.near_v4.to_string(), "near");
    line(ends.far_v4.to_string(), "far");
    line(ends.near_v6.to_string(), "near");
    line(ends.far_v6.to_string(), "far");
    for ((_, hops), addresses) in routes(spec).zip(router_addresses(spec)) {
        for (hop, router) in hops.iter().zip(addresses) {
            line(router.v4.to_string(), &hop.name);
            line(router.v6.to_string(), &hop.name);
        }
    }
    text
}

/// Changes the calling thread's mounts, which must be its own; says what the machine refused.
pub(super) fn mount_for_host(spec: &PathSpec, caveats: &mut Vec<String>) {
    if let Err(error) = show_hosts_file(spec) {
        caveats.push(format!(
            "the names near and far are not known to commands ({error}); use {} and {}",
            ADDRESSES.near_v4, ADDRESSES.far_v4
        ));
    }
    if let Err(error) = mount::sysfs() {
        caveats.push(format!(
            "/sys shows the devices of the machine, not of the host ({error})"
        ));
    }
}

fn show_hosts_file(spec: &PathSpec) -> io::Result<()> {
    let file = unique_file("hosts")?;
    std::fs::write(&file, hosts_file(spec))?;
    let shown = mount::bind(&file, Path::new("/etc/hosts"));
    // The mount keeps the file; its name is not needed.
    std::fs::remove_file(&file)?;
    shown
}

/// A name in the folder for temporary files that nobody else can have guessed.
pub(crate) fn unique_file(what: &str) -> io::Result<PathBuf> {
    Ok(std::env::temp_dir().join(format!("longhaul-lab-{what}-{}", random_hex()?)))
}

/// 128 random bits.
pub(crate) fn random_hex() -> io::Result<String> {
    let mut bytes = [0; 16];
    process::random(&mut bytes)?;
    let mut text = String::with_capacity(32);
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}
