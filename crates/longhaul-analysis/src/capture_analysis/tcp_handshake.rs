//! The options that both ends of a TCP connection offered, those in force, and the times.
//!
//! An option is in force if both ends offered it: shifts and timestamps (RFC 7323), selective
//! acknowledgements (RFC 2018); ECN if the opener set both flags and the listener one (RFC 3168).
//!
//! Source: those. Units: bytes, us. Error: none; a middlebox may change the options, so the
//! captures of the two ends may differ, which is useful evidence.
//! Wrong when: the capture began after the handshake (then it has none).

use longhaul_model::decoded_packet::{TcpFlags, TcpHeader};
use longhaul_model::report::v1::capture::{HandshakeOffer, NegotiatedOptions, TcpHandshake};

/// A TCP handshake as observed.
#[derive(Debug, Clone, Default)]
pub(super) struct ObservedHandshake {
    opener: Option<(HandshakeOffer, u64)>,
    listener: Option<(HandshakeOffer, u64)>,
    /// Set if the SYN or the SYN/ACK was retransmitted: its time is then ambiguous.
    opener_again: bool,
    listener_again: bool,
    acknowledged_ns: Option<u64>,
}

impl ObservedHandshake {
    /// Adds a packet of the connection.
    pub fn add_segment(&mut self, segment: &TcpHeader, from_opener: bool, at_ns: u64) {
        let syn = segment.flags.has(TcpFlags::SYN);
        match (from_opener, syn) {
            (true, true) if self.opener.is_some() => self.opener_again = true,
            (true, true) => {
                let ecn = segment.flags.has(TcpFlags::ECE | TcpFlags::CWR);
                self.opener = Some((read_offer(segment, ecn), at_ns));
            }
            (false, true) if self.listener.is_some() => self.listener_again = true,
            (false, true) => {
                let ecn = segment.flags.has(TcpFlags::ECE) && !segment.flags.has(TcpFlags::CWR);
                self.listener = Some((read_offer(segment, ecn), at_ns));
            }
            (true, false) if self.listener.is_some() && segment.flags.has(TcpFlags::ACK) => {
                self.acknowledged_ns.get_or_insert(at_ns);
            }
            _ => {}
        }
    }

    /// Returns the window shifts of opener and listener; `None` if the handshake was not seen.
    pub fn shifts(&self) -> Option<(u8, u8)> {
        let (opener, listener) = (self.opener.as_ref()?.0, self.listener.as_ref()?.0);
        Some(match (opener.window_shift, listener.window_shift) {
            (Some(opener), Some(listener)) => (opener, listener),
            _ => (0, 0),
        })
    }

    /// Returns the time from the opener's first packet to the end of the handshake: one RTT at any
    /// capture point. `None` after a retransmit.
    pub fn round_trip_ns(&self) -> Option<u64> {
        let began = self.opener.as_ref().filter(|_| !self.opener_again)?.1;
        let ended = self.acknowledged_ns.filter(|_| !self.listener_again)?;
        Some(ended.saturating_sub(began))
    }

    pub fn finish(self) -> Option<TcpHandshake> {
        let (opener, asked_ns) = self.opener?;
        let listener = self.listener.map(|(offer, _)| offer);
        let since = |from: u64, to: u64| to.saturating_sub(from) / 1000;
        let answered_ns = self.listener.map(|(_, at_ns)| at_ns);
        Some(TcpHandshake {
            opener,
            listener,
            agreed: listener.map(|listener| NegotiatedOptions {
                window_scaling: opener.window_shift.is_some() && listener.window_shift.is_some(),
                sack: opener.sack && listener.sack,
                timestamps: opener.timestamps && listener.timestamps,
                ecn: opener.ecn && listener.ecn,
            }),
            answered_us: answered_ns
                .filter(|_| !self.opener_again)
                .map(|at_ns| since(asked_ns, at_ns)),
            acknowledged_us: answered_ns
                .zip(self.acknowledged_ns)
                .filter(|_| !self.listener_again)
                .map(|(from, to)| since(from, to)),
        })
    }
}

fn read_offer(segment: &TcpHeader, ecn: bool) -> HandshakeOffer {
    let options = &segment.options;
    HandshakeOffer {
        mss_bytes: options.mss_bytes.map(u32::from),
        window_shift: options.window_shift,
        sack: options.sack_permitted,
        timestamps: options.timestamps.is_some(),
        ecn,
        window_bytes: u32::from(segment.window),
    }
}
