//! Kernel settings by dotted name, of the calling thread's network namespace.

use std::io;
use std::path::PathBuf;

/// Reads a setting, without the newline. Returns `None` if it is unreadable or does not exist (some
/// settings are hidden in network namespaces).
pub fn read_setting(name: &str) -> Option<String> {
    let text = std::fs::read_to_string(setting_path(name).ok()?).ok()?;
    Some(text.trim_end().to_owned())
}

/// Reads the exact value from the kernel, except for the final newline.
///
/// # Errors
/// `NotFound` if the kernel or this network namespace has no such setting; `InvalidInput` for an
/// invalid name.
pub fn read_setting_exact(name: &str) -> io::Result<String> {
    let mut text = std::fs::read_to_string(setting_path(name)?)?;
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}

/// Writes a setting.
///
/// # Errors
/// `PermissionDenied` without root, or if only the machine's initial network namespace may write
/// it; `InvalidInput` for a value that the kernel rejects; otherwise as in [`read_setting_exact`].
pub fn write_setting(name: &str, value: &str) -> io::Result<()> {
    let mut to = std::fs::File::options().write(true).open(setting_path(name)?)?;
    // A single call, because the kernel takes each write as a complete value.
    let line = format!("{value}\n");
    let written = io::Write::write(&mut to, line.as_bytes())?;
    if written == line.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Returns whether the setting is writable here; in a network namespace, machine-wide ones are
/// read-only even for root. `None` if there is no such setting.
pub fn is_writable(name: &str) -> Option<bool> {
    let file = std::fs::metadata(setting_path(name).ok()?).ok()?;
    Some(!file.permissions().readonly())
}

/// Returns the path below `/proc/sys`. A slash in a name is a dot within a component (`eth0/100`).
fn setting_path(name: &str) -> io::Result<PathBuf> {
    let swap = |c| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    let path: String = name.chars().map(swap).collect();
    let whole = path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if !whole || name.contains('\0') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(PathBuf::from("/proc/sys").join(path))
}

/// Reads a setting with a single number.
pub fn read_number(name: &str) -> Option<u64> {
    read_setting(name)?.parse().ok()
}

/// Reads a setting with three numbers: minimum, default, maximum.
pub fn read_triple(name: &str) -> Option<[u64; 3]> {
    parse_triple(&read_setting(name)?)
}

/// Reads `net.ipv4.tcp_mem` and converts it from pages to bytes.
pub fn tcp_memory_bytes() -> Option<[u64; 3]> {
    let page = crate::memory_region::page_bytes() as u64;
    Some(read_triple("net.ipv4.tcp_mem")?.map(|pages| pages.saturating_mul(page)))
}

fn parse_triple(text: &str) -> Option<[u64; 3]> {
    let numbers: Vec<u64> =
        text.split_ascii_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_triple_is_three_numbers_and_nothing_else() {
        assert_eq!(parse_triple("4096\t131072\t33554432"), Some([4096, 131_072, 33_554_432]));
        for wrong in ["", "1 2", "1 2 3 4", "1 2 x", "-1 2 3"] {
            assert_eq!(parse_triple(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_name_leads_nowhere_but_below_the_settings() {
        for wrong in ["", ".", "net..core", "../etc", "net.//.x", ".net", "a.", "a\0b", "/./.etc"] {
            let error = setting_path(wrong).expect_err(wrong);
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{wrong:?}");
        }
        let vlan = setting_path("net.ipv4.conf.eth0/100.forwarding").expect("a VLAN's setting");
        assert!(vlan.ends_with("conf/eth0.100/forwarding"));
    }

    #[test]
    fn the_exact_value_keeps_its_tabs() {
        let exact = read_setting_exact("net.ipv4.tcp_rmem").expect("tcp_rmem");
        assert_eq!(exact.split('\t').count(), 3, "{exact:?}");
        assert!(!exact.ends_with('\n'));
        let sealed = "net.ipv4.tcp_available_congestion_control";
        assert_eq!(is_writable(sealed), Some(false));
        assert_eq!(is_writable("net.ipv4.no_such_setting"), None);
    }

    #[test]
    fn a_setting_that_does_not_exist_is_absent() {
        let missing = read_setting_exact("net.ipv4.no_such_setting").expect_err("absent");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert_eq!(read_setting("net.ipv4.no_such_setting"), None);
        assert!(read_triple("net.ipv4.tcp_rmem").is_some());
    }
}
