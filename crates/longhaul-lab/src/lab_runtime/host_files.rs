//! Gives commands in a host names for hosts and routers, and shows them only its own devices.
//!
//! The names are in a hosts file mounted over `/etc/hosts`; `/sys` is mounted again, because it
//! shows the devices of the namespace in which it was mounted.

use crate::emulation_engine::{LabHost, NodeAddress, assign_router_addresses, list_routes};
use crate::path_spec::PathSpec;
use longhaul_sys::{mount, process_control};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

/// Returns the hosts file of a path.
fn format_hosts_file(spec: &PathSpec) -> String {
    let mut text = String::from("127.0.0.1 localhost\n::1 localhost ip6-localhost\n");
    let mut add_name = |node: NodeAddress, name: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{} {name}\n{} {name}", node.v4, node.v6);
    };
    add_name(LabHost::Near.address(), "near");
    add_name(LabHost::Far.address(), "far");
    if is_host_name(&spec.key) {
        add_name(LabHost::Far.address(), &spec.key);
    }
    for ((_, hops), addresses) in list_routes(spec).zip(assign_router_addresses(spec)) {
        for (hop, router) in hops.iter().zip(addresses) {
            add_name(router, &hop.name);
            for way in 1..hop.balance {
                add_name(router.parallel(way), &format!("{}-{}", hop.name, way + 1));
            }
        }
    }
    text
}

/// Reports whether the key is a valid host name. The far host also has the name of its path, so
/// that runs on several paths have different names in one archive. The stem of a user's file may
/// not be a valid host name.
fn is_host_name(key: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let taken = ["near", "far", "localhost"].contains(&key);
    (1..=63).contains(&key.len()) && key.chars().all(letters) && !key.starts_with('-') && !taken
}

/// Names resolve to IPv4 first, as the goodput limits assume; IPv6 is used on request.
const ADDRESS_CHOICE: &str = "precedence ::ffff:0:0/96 100\n";

/// Changes the calling thread's mounts, which must be private to it, and adds caveats for refused
/// ones.
pub(super) fn mount_for_host(spec: &PathSpec, caveats: &mut Vec<String>) {
    if let Err(error) = mount_text(&format_hosts_file(spec), "/etc/hosts") {
        caveats.push(format!(
            "commands cannot resolve the names near and far ({error}); use {} and {}",
            LabHost::Near.address().v4,
            LabHost::Far.address().v4
        ));
    }
    // Only glibc reads this file; another libc has its own preference.
    let _ = mount_text(ADDRESS_CHOICE, "/etc/gai.conf");
    if let Err(error) = mount::mount_sysfs() {
        caveats.push(format!("/sys shows the devices of the machine, not of the host ({error})"));
    }
}

/// Mounts a file with `text` over `on`.
fn mount_text(text: &str, on: &str) -> io::Result<()> {
    let file = unique_temp_path("shown")?;
    std::fs::write(&file, text)?;
    let shown = mount::bind_mount(&file, Path::new(on));
    // The mount keeps the file, so its name is not needed.
    std::fs::remove_file(&file)?;
    shown
}

/// Returns an unpredictable name in the folder for temporary files.
pub(crate) fn unique_temp_path(what: &str) -> io::Result<PathBuf> {
    Ok(std::env::temp_dir().join(format!("longhaul-lab-{what}-{}", generate_random_hex()?)))
}

/// Writes a file that appears only when it is complete.
pub(crate) fn write_whole_file(path: &Path, text: &str) -> io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}.new", std::process::id()));
    std::fs::write(&unfinished, text)?;
    std::fs::rename(unfinished, path)
}

/// Returns 128 random bits.
pub(crate) fn generate_random_hex() -> io::Result<String> {
    let mut bytes = [0; 16];
    process_control::fill_random(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_far_host_has_the_name_of_its_path_where_that_is_one() {
        let mut spec =
            crate::path_catalogue::load_path("slac-cesnet", &[]).expect("a shipped path");
        let lines = |spec: &PathSpec| {
            let file = format_hosts_file(spec);
            let of_far = file.lines().filter(|it| it.ends_with(" slac-cesnet"));
            of_far.count()
        };
        assert_eq!(lines(&spec), 2, "IPv4 and IPv6");
        "evil\n192.0.2.1 slac-cesnet".clone_into(&mut spec.key);
        assert_eq!(lines(&spec), 0);
        for key in ["far", "localhost", "", "-a", "a b"] {
            assert!(!is_host_name(key), "{key}");
        }
    }
}
