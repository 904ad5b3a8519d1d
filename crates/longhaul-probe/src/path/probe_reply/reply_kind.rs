//! Kinds of answers, with their names in reports.

use longhaul_model::serde_name::name_variant;
use serde::Serialize;

/// The kinds of answers to a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyKind {
    TimeExceeded,
    EchoReply,
    PortUnreachable,
    ProtocolUnreachable,
    HostUnreachable,
    NetUnreachable,
    /// Administratively prohibited.
    Prohibited,
    /// Too big and must not be fragmented; the MTU is 0 if an old router does not report it.
    TooBig {
        mtu_bytes: u32,
    },
    /// Any other unreachable error.
    Unreachable,
    ParameterProblem,
    SynAck,
    Reset,
}

impl ReplyKind {
    /// Classifies an ICMP or ICMPv6 error; `rest` holds the last four bytes of its header.
    pub(super) fn from_icmp(v4: bool, kind: u8, code: u8, rest: u32) -> Option<ReplyKind> {
        if v4 { classify_icmp_v4(kind, code, rest) } else { classify_icmp_v6(kind, code, rest) }
    }

    /// Returns whether this is an ICMP error, which hosts limit to a few per second.
    pub const fn is_error(self) -> bool {
        !matches!(self, ReplyKind::EchoReply | ReplyKind::SynAck | ReplyKind::Reset)
    }

    /// Returns the name used in reports.
    pub fn as_str(self) -> &'static str {
        name_variant(&self)
    }
}

/// Classifies ICMPv4 errors (RFC 792, 1122, 1191, 1812).
fn classify_icmp_v4(kind: u8, code: u8, rest: u32) -> Option<ReplyKind> {
    Some(match (kind, code) {
        (11, 0) => ReplyKind::TimeExceeded,
        (3, 0 | 6 | 11) => ReplyKind::NetUnreachable,
        (3, 1 | 7 | 8 | 12) => ReplyKind::HostUnreachable,
        (3, 2) => ReplyKind::ProtocolUnreachable,
        (3, 3) => ReplyKind::PortUnreachable,
        (3, 4) => ReplyKind::TooBig { mtu_bytes: rest & 0xffff },
        (3, 9 | 10 | 13 | 14 | 15) => ReplyKind::Prohibited,
        (3, _) => ReplyKind::Unreachable,
        (12, _) => ReplyKind::ParameterProblem,
        _ => return None,
    })
}

/// Classifies ICMPv6 errors (RFC 4443).
fn classify_icmp_v6(kind: u8, code: u8, rest: u32) -> Option<ReplyKind> {
    Some(match (kind, code) {
        (3, 0) => ReplyKind::TimeExceeded,
        (1, 0) => ReplyKind::NetUnreachable,
        (1, 1 | 5 | 6) => ReplyKind::Prohibited,
        (1, 3) => ReplyKind::HostUnreachable,
        (1, 4) => ReplyKind::PortUnreachable,
        (1, _) => ReplyKind::Unreachable,
        (2, _) => ReplyKind::TooBig { mtu_bytes: rest },
        // An unknown next header.
        (4, 1) => ReplyKind::ProtocolUnreachable,
        (4, _) => ReplyKind::ParameterProblem,
        _ => return None,
    })
}
