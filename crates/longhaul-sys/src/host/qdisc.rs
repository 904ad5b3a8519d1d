//! Queueing disciplines of an interface.
//!
//! Source: RTM_GETQDISC, `linux/pkt_sched.h`; of the calling thread's network namespace.
//! Wrong when: the device is down and has none.

use crate::netlink::{self, interface_index};
use longhaul_model::units::Rate;
use std::io;

/// struct gnet_stats_queue: queue length in packets, backlog in bytes, drops, requeues, overlimits.
const STATISTICS_QUEUE: u16 = 3;
const QUEUE_BACKLOG: usize = 4;
const FQ_FLOW_MAX_RATE: u16 = 7;
const PARENT_ROOT: u32 = u32::MAX;
/// Ingress and clsact, which hold filters but no outgoing packets.
const PARENT_INGRESS: u32 = 0xffff_fff1;
/// struct tcmsg: family and padding, interface, handle, parent, info.
const FIXED_BYTES: usize = 20;

/// Queueing disciplines that packets pass before the device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QdiscKinds {
    /// Kind of the root; absent while the device is down.
    pub root: Option<String>,
    /// Distinct kinds below the root, such as those of `mq`.
    pub leaves: Vec<String>,
    /// The lowest per-flow rate limit of the interface's fq disciplines.
    pub flow_max: Option<Rate>,
}

/// Reads the queueing disciplines of an interface.
pub fn query_qdisc(name: &str) -> io::Result<QdiscKinds> {
    let index = interface_index(name)?;
    Ok(parse_qdisc_kinds(&list_qdiscs(index)?, index))
}

/// Returns the queued bytes of an interface; absent if its root does not count them.
pub fn backlog_bytes(name: &str) -> io::Result<Option<u64>> {
    let index = interface_index(name)?;
    Ok(list_qdiscs(index)?.iter().find_map(|answer| parse_backlog(answer, index)))
}

fn list_qdiscs(index: u32) -> io::Result<Vec<Vec<u8>>> {
    let mut fixed = [0; FIXED_BYTES];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    netlink::list_objects(libc::RTM_GETQDISC, &fixed)
}

fn parse_backlog(body: &[u8], index: u32) -> Option<u64> {
    if netlink::read_u32(body, 4) != Some(index) || netlink::read_u32(body, 12) != Some(PARENT_ROOT)
    {
        return None;
    }
    let statistics = netlink::find_attribute(body.get(FIXED_BYTES..)?, libc::TCA_STATS2)?;
    let queue = netlink::find_attribute(statistics, STATISTICS_QUEUE)?;
    netlink::read_u32(queue, QUEUE_BACKLOG).map(u64::from)
}

fn parse_qdisc_kinds(answers: &[Vec<u8>], index: u32) -> QdiscKinds {
    let mut found = QdiscKinds::default();
    for body in answers {
        let parent = netlink::read_u32(body, 12);
        if netlink::read_u32(body, 4) != Some(index) || parent == Some(PARENT_INGRESS) {
            continue;
        }
        let Some(attributes) = body.get(FIXED_BYTES..) else {
            continue;
        };
        let Some(kind) =
            netlink::find_attribute(attributes, libc::TCA_KIND).map(netlink::parse_text)
        else {
            continue;
        };
        if kind == "fq" {
            let ceiling = flow_rate_limit(attributes);
            found.flow_max = [found.flow_max, ceiling].into_iter().flatten().min();
        }
        if parent == Some(PARENT_ROOT) {
            found.root = Some(kind);
        } else if !found.leaves.contains(&kind) {
            found.leaves.push(kind);
        }
    }
    found.leaves.sort_unstable();
    found
}

/// Returns the flow rate limit of an fq; all ones means none.
fn flow_rate_limit(attributes: &[u8]) -> Option<Rate> {
    let options = netlink::find_attribute(attributes, libc::TCA_OPTIONS)?;
    let bytes_per_second =
        netlink::read_u32(netlink::find_attribute(options, FQ_FLOW_MAX_RATE)?, 0)?;
    (bytes_per_second != u32::MAX).then(|| Rate::bits_per_second(u64::from(bytes_per_second) * 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = 4 + value.len() as u16;
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn answer(index: u32, parent: u32, kind: &str, flow_max: Option<u32>) -> Vec<u8> {
        let mut body = vec![0; 4];
        for word in [index, 0, parent, 0] {
            body.extend_from_slice(&word.to_ne_bytes());
        }
        body.extend(attribute(libc::TCA_KIND, &[kind.as_bytes(), &[0]].concat()));
        if let Some(rate) = flow_max {
            let options = attribute(FQ_FLOW_MAX_RATE, &rate.to_ne_bytes());
            body.extend(attribute(libc::TCA_OPTIONS, &options));
        }
        body
    }

    #[test]
    fn loopback_has_no_queue() {
        let lo = query_qdisc("lo").expect("netlink");
        assert!(lo.leaves.is_empty());
        assert_eq!(lo.flow_max, None);
        assert!(query_qdisc("no-such").is_err());
    }

    #[test]
    fn the_backlog_is_that_of_the_root() {
        let queue: Vec<u8> =
            [7_u32, 9000, 0, 0, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let statistics = attribute(libc::TCA_STATS2, &attribute(STATISTICS_QUEUE, &queue));
        let with_statistics = |parent| {
            let mut answer = answer(2, parent, "fq", None);
            answer.extend_from_slice(&statistics);
            answer
        };
        assert_eq!(parse_backlog(&with_statistics(PARENT_ROOT), 2), Some(9000));
        assert_eq!(parse_backlog(&with_statistics(PARENT_ROOT), 3), None);
        assert_eq!(parse_backlog(&with_statistics(1), 2), None);
        assert_eq!(parse_backlog(&answer(2, PARENT_ROOT, "fq", None), 2), None);
        assert_eq!(backlog_bytes("lo").expect("netlink").unwrap_or(0), 0);
    }

    #[test]
    fn leaves_of_this_interface_are_told_once_and_the_lowest_ceiling_counts() {
        let answers = [
            answer(2, PARENT_ROOT, "mq", None),
            answer(2, 1, "fq", Some(u32::MAX)),
            answer(2, 2, "fq", Some(125_000_000)),
            answer(2, PARENT_INGRESS, "clsact", None),
            answer(3, PARENT_ROOT, "pfifo_fast", None),
        ];
        let expect = QdiscKinds {
            root: Some("mq".into()),
            leaves: vec!["fq".into()],
            flow_max: Some(Rate::bits_per_second(1_000_000_000)),
        };
        assert_eq!(parse_qdisc_kinds(&answers, 2), expect);
        assert_eq!(parse_qdisc_kinds(&answers, 9), QdiscKinds::default());
    }
}
