//! Kernel settings by their dotted name.

/// The value of a setting, without the newline; `None` where it does not exist (some settings
/// are hidden inside a network namespace) or may not be read.
pub fn read(name: &str) -> Option<String> {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim_end().to_owned())
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
    fn a_setting_that_does_not_exist_is_absent() {
        assert_eq!(read("net.ipv4.no_such_setting"), None);
        assert!(triple("net.ipv4.tcp_rmem").is_some());
    }
}
