//! Kinds of answers, with their names in reports.

/// The kinds of answers to a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
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

impl Kind {
    /// Classifies an ICMP or ICMPv6 error; `rest` holds the last four bytes of its header.
    pub(super) fn of_icmp(v4: bool, kind: u8, code: u8, rest: u32) -> Option<Kind> {
        if v4 {
            of_v4(kind, code, rest)
        } else {
            of_v6(kind, code, rest)
        }
    }

    /// Returns whether this is an ICMP error, which hosts limit to a few per second.
    pub const fn is_error(self) -> bool {
        !matches!(self, Kind::EchoReply | Kind::SynAck | Kind::Reset)
    }

    /// Returns the name used in reports.
    pub const fn word(self) -> &'static str {
        match self {
            Kind::TimeExceeded => "time_exceeded",
            Kind::EchoReply => "echo_reply",
            Kind::PortUnreachable => "port_unreachable",
            Kind::ProtocolUnreachable => "protocol_unreachable",
            Kind::HostUnreachable => "host_unreachable",
            Kind::NetUnreachable => "net_unreachable",
            Kind::Prohibited => "prohibited",
            Kind::TooBig { .. } => "too_big",
            Kind::Unreachable => "unreachable",
            Kind::ParameterProblem => "parameter_problem",
            Kind::SynAck => "syn_ack",
            Kind::Reset => "reset",
        }
    }
}

/// Classifies ICMPv4 errors (RFC 792, 1122, 1191, 1812).
fn of_v4(kind: u8, code: u8, rest: u32) -> Option<Kind> {
    Some(match (kind, code) {
        (11, 0) => Kind::TimeExceeded,
        (3, 0 | 6 | 11) => Kind::NetUnreachable,
        (3, 1 | 7 | 8 | 12) => Kind::HostUnreachable,
        (3, 2) => Kind::ProtocolUnreachable,
        (3, 3) => Kind::PortUnreachable,
        (3, 4) => Kind::TooBig {
            mtu_bytes: rest & 0xffff,
        },
        (3, 9 | 10 | 13 | 14 | 15) => Kind::Prohibited,
        (3, _) => Kind::Unreachable,
        (12, _) => Kind::ParameterProblem,
        _ => return None,
    })
}

/// Classifies ICMPv6 errors (RFC 4443).
fn of_v6(kind: u8, code: u8, rest: u32) -> Option<Kind> {
    Some(match (kind, code) {
        (3, 0) => Kind::TimeExceeded,
        (1, 0) => Kind::NetUnreachable,
        (1, 1 | 5 | 6) => Kind::Prohibited,
        (1, 3) => Kind::HostUnreachable,
        (1, 4) => Kind::PortUnreachable,
        (1, _) => Kind::Unreachable,
        (2, _) => Kind::TooBig { mtu_bytes: rest },
        // An unknown next header.
        (4, 1) => Kind::ProtocolUnreachable,
        (4, _) => Kind::ParameterProblem,
        _ => return None,
    })
}
