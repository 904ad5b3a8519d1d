//! Kernel settings by their dotted name, of the calling thread's network namespace.

use std::io;
use std::path::PathBuf;

/// The value of a setting, without the newline; `None` where it does not exist (some settings
/// are hidden inside a network namespace) or may not be read.
pub fn read(name: &str) -> Option<String> {
    let text = std::fs::read_to_string(file(name).ok()?).ok()?;
    Some(text.trim_end().to_owned())
}

/// The value exactly as the kernel gives it, but for the newline at its end.
///
/// # Errors
/// `NotFound` where the kernel, or this network namespace, has no such setting; `InvalidInput`
/// for what is no name.
pub fn read_exactly(name: &str) -> io::Result<String> {
    let mut text = std::fs::read_to_string(file(name)?)?;
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}

/// Writes a setting.
///
/// # Errors
/// `PermissionDenied` without root, and for what only the machine's first network namespace may
/// write; `InvalidInput` for a value that the kernel does not take; else as [`read_exactly`].
pub fn write(name: &str, value: &str) -> io::Result<()> {
    let mut to = std::fs::File::options().write(true).open(file(name)?)?;
    // One call: the kernel takes each as a whole value.
    let line = format!("{value}\n");
    let written = io::Write::write(&mut to, line.as_bytes())?;
    if written == line.len() {
        Ok(())
    } else {
        Err(io::ErrorKind::WriteZero.into())
    }
}

/// Whether anybody may write the setting here; inside a network namespace the machine-wide ones
/// are sealed even for root. `None` where there is no such setting.
pub fn is_writable(name: &str) -> Option<bool> {
    let file = std::fs::metadata(file(name).ok()?).ok()?;
    Some(!file.permissions().readonly())
}

/// Below `/proc/sys`, and nowhere else. A slash stands for a dot inside a part (`eth0/100`).
fn file(name: &str) -> io::Result<PathBuf> {
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

/// A setting that is one number.
pub fn number(name: &str) -> Option<u64> {
    read(name)?.parse().ok()
}

/// A setting that is three numbers: least, default, most.
pub fn triple(name: &str) -> Option<[u64; 3]> {
    parse_triple(&read(name)?)
}

/// `net.ipv4.tcp_mem`, which the kernel keeps in pages, in bytes.
pub fn tcp_memory_bytes() -> Option<[u64; 3]> {
    let page = crate::region::page_bytes() as u64;
    Some(triple("net.ipv4.tcp_mem")?.map(|pages| pages.saturating_mul(page)))
}

fn parse_triple(text: &str) -> Option<[u64; 3]> {
    let numbers: Vec<u64> = text
        .split_ascii_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_triple_is_three_numbers_and_nothing_else() {
        assert_eq!(
            parse_triple("4096\t131072\t33554432"),
            Some([4096, 131_072, 33_554_432])
        );
        for wrong in ["", "1 2", "1 2 3 4", "1 2 x", "-1 2 3"] {
            assert_eq!(parse_triple(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_name_leads_nowhere_but_below_the_settings() {
        for wrong in [
            "",
            ".",
            "net..core",
            "../etc",
            "net.//.x",
            ".net",
            "a.",
            "a\0b",
            "/./.etc",
        ] {
            let error = file(wrong).expect_err(wrong);
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{wrong:?}");
        }
        let vlan = file("net.ipv4.conf.eth0/100.forwarding").expect("a VLAN's setting");
        assert!(vlan.ends_with("conf/eth0.100/forwarding"));
    }

    #[test]
    fn the_exact_value_keeps_its_tabs() {
        let exact = read_exactly("net.ipv4.tcp_rmem").expect("tcp_rmem");
        assert_eq!(exact.split('\t').count(), 3, "{exact:?}");
        assert!(!exact.ends_with('\n'));
        let sealed = "net.ipv4.tcp_available_congestion_control";
        assert_eq!(is_writable(sealed), Some(false));
        assert_eq!(is_writable("net.ipv4.no_such_setting"), None);
    }

    #[test]
    fn a_setting_that_does_not_exist_is_absent() {
        let missing = read_exactly("net.ipv4.no_such_setting").expect_err("absent");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert_eq!(read("net.ipv4.no_such_setting"), None);
        assert!(triple("net.ipv4.tcp_rmem").is_some());
    }
}
