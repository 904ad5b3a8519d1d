//! Protocol counters with the kernel's names: `TcpExt.TCPTimeouts`, `Udp.RcvbufErrors`.
//!
//! Source: `/proc/net/snmp` and `/proc/net/netstat`, of the calling thread's network namespace.
//! Wrong when: other programs on the host use the network; the counters are not per process.

use std::collections::BTreeMap;
use std::io;

/// Counters by name.
pub type KernelCounters = BTreeMap<String, u64>;

/// Reads all counters of both files.
pub fn read_protocol_counters() -> io::Result<KernelCounters> {
    let mut counters =
        parse_protocol_counters(&std::fs::read_to_string("/proc/thread-self/net/snmp")?);
    counters.extend(parse_protocol_counters(&std::fs::read_to_string(
        "/proc/thread-self/net/netstat",
    )?));
    Ok(counters)
}

/// Parses pairs of lines, names above values, both prefixed with the group's name. Skips values
/// that are no counters (`Tcp.MaxConn` is -1) and unpaired lines.
pub fn parse_protocol_counters(text: &str) -> KernelCounters {
    let mut counters = KernelCounters::new();
    let mut lines = text.lines().peekable();
    while let Some(names) = lines.next() {
        let Some(values) = lines.peek() else { break };
        let (Some((group, names)), Some((other, values))) =
            (names.split_once(':'), values.split_once(':'))
        else {
            continue;
        };
        if group != other {
            continue;
        }
        let values = values.split_ascii_whitespace();
        for (name, value) in names.split_ascii_whitespace().zip(values) {
            if let Ok(value) = value.parse() {
                counters.insert(format!("{group}.{name}"), value);
            }
        }
        lines.next();
    }
    counters
}

/// Returns the counters that increased from `before` to `after`, with their increase.
pub fn counter_growth(before: &KernelCounters, after: &KernelCounters) -> KernelCounters {
    after
        .iter()
        .filter_map(|(name, now)| {
            let then = before.get(name).copied().unwrap_or(0);
            let grown = now.checked_sub(then).filter(|&grown| grown > 0)?;
            Some((name.clone(), grown))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_stand_over_their_values() {
        let text = "Ip: A B\nIp: 1 2\nTcp: C D\nTcp: -1 4\n";
        let expect = [("Ip.A", 1), ("Ip.B", 2), ("Tcp.D", 4)];
        let expect: KernelCounters = expect.map(|(name, value)| (name.to_owned(), value)).into();
        assert_eq!(parse_protocol_counters(text), expect);
    }

    #[test]
    fn only_what_grew_is_told() {
        let before = parse_protocol_counters("T: a b c\nT: 5 5 5\n");
        let after = parse_protocol_counters("T: a b c d\nT: 5 9 1 2\n");
        let expect: KernelCounters = [("T.b".to_owned(), 4), ("T.d".to_owned(), 2)].into();
        assert_eq!(counter_growth(&before, &after), expect);
    }

    #[test]
    fn this_kernel_counts_tcp() {
        let counters = read_protocol_counters().expect("/proc");
        assert!(counters.contains_key("Tcp.RetransSegs"));
        assert!(counters.contains_key("TcpExt.TCPTimeouts"));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_fail(text in "([A-Z]{1,2}:( -?[a-z0-9]{0,22}){0,6}\n|.{0,40}\n){0,8}") {
            let counters = parse_protocol_counters(&text);
            prop_assert!(counter_growth(&counters, &counters).is_empty());
        }
    }
}
