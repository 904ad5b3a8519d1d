//! Packets dropped by the kernel's receive path before protocol processing.
//!
//! Source: `/proc/net/softnet_stat`, a hexadecimal line per core: processed, dropped (queue of
//! `net.core.netdev_max_backlog` full), squeezed (`netdev_budget` used up); of the whole machine.
//! Wrong when: squeezed counts are normal on a busy host; only drops lose packets.

use std::io;

/// Totals of all cores since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SoftnetStats {
    pub processed_packets: u64,
    pub dropped_packets: u64,
    /// Number of times that work was deferred to the next poll.
    pub squeezed: u64,
}

/// Reads the current totals.
pub fn read_softnet_stat() -> io::Result<SoftnetStats> {
    let text = std::fs::read_to_string("/proc/net/softnet_stat")?;
    parse_softnet_stat(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Parses the totals; `None` if a line is malformed.
pub fn parse_softnet_stat(text: &str) -> Option<SoftnetStats> {
    let mut sums = SoftnetStats::default();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let mut next = || u64::from_str_radix(words.next()?, 16).ok();
        sums.processed_packets = sums.processed_packets.saturating_add(next()?);
        sums.dropped_packets = sums.dropped_packets.saturating_add(next()?);
        sums.squeezed = sums.squeezed.saturating_add(next()?);
    }
    Some(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_summed_in_hexadecimal() {
        let text = "00000014 00000002 0000000a 00000000\n00001248 00000001 00000000 00000000\n";
        let expect =
            SoftnetStats { processed_packets: 0x14 + 0x1248, dropped_packets: 3, squeezed: 10 };
        assert_eq!(parse_softnet_stat(text), Some(expect));
        assert_eq!(parse_softnet_stat("zz 0 0\n"), None);
        assert_eq!(parse_softnet_stat("1 2\n"), None);
        read_softnet_stat().expect("this machine's");
    }
}
