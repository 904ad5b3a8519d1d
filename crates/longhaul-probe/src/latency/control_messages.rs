//! The messages of TWAMP-Control (RFC 4656, section 3; RFC 5357, section 3), which all have fixed lengths.
//!
//! The last 16 octets of each message after Server-Start are its HMAC, which is zero in unauthenticated
//! mode.

use super::wire_time::encode_ntp_time;
use std::net::IpAddr;
use std::time::Duration;

pub(super) const GREETING_BYTES: usize = 64;
pub(super) const SETUP_BYTES: usize = 164;
/// The length of Server-Start and Accept-Session.
pub(super) const ACCEPT_BYTES: usize = 48;
pub(super) const REQUEST_BYTES: usize = 112;
/// The length of Start-Sessions, Start-Ack and Stop-Sessions.
pub(super) const COMMAND_BYTES: usize = 32;
pub(super) const START_SESSIONS: u8 = 2;
pub(super) const STOP_SESSIONS: u8 = 3;
pub(super) const REQUEST_TW_SESSION: u8 = 5;

/// Values of the field Accept (RFC 4656, section 3.3).
pub(super) const ACCEPTED: u8 = 0;
pub(super) const REFUSED: u8 = 1;
pub(super) const INTERNAL_ERROR: u8 = 2;
pub(super) const NOT_SUPPORTED: u8 = 3;
pub(super) const RESOURCES_NEVER: u8 = 4;
pub(super) const RESOURCES_NOW: u8 = 5;

/// The security of a connection and of its packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TwampMode {
    Unauthenticated,
    /// Messages are encrypted; packets have an HMAC, and an encrypted number.
    Authenticated,
    /// Packets are encrypted too.
    Encrypted,
}

impl TwampMode {
    /// Returns the bit in the field Modes.
    pub(super) fn bit(self) -> u32 {
        match self {
            TwampMode::Unauthenticated => 1,
            TwampMode::Authenticated => 2,
            TwampMode::Encrypted => 4,
        }
    }

    /// Returns the length of a packet of the sender without padding.
    fn header_bytes(self) -> u32 {
        if self == TwampMode::Unauthenticated { 14 } else { 48 }
    }
}

/// The session that a server is asked for. The addresses are those of the control connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TwampSessionRequest {
    pub is_ipv6: bool,
    pub sender_port: u16,
    /// The UDP port that the server should reflect on; it may choose another one.
    pub reflector_port: u16,
    /// UDP payload of a packet of the sender.
    pub payload_bytes: u32,
    /// The time for which the reflector answers after the session was stopped.
    pub timeout: Duration,
    pub dscp: Option<u8>,
}

impl TwampSessionRequest {
    /// Returns the message Request-TW-Session, without an HMAC.
    pub(super) fn encode(&self, mode: TwampMode, now_ns: u64) -> Vec<u8> {
        let mut message = vec![0; REQUEST_BYTES];
        let mut write =
            |at: usize, bytes: &[u8]| message[at..at + bytes.len()].copy_from_slice(bytes);
        write(0, &[REQUEST_TW_SESSION, if self.is_ipv6 { 6 } else { 4 }]);
        write(12, &self.sender_port.to_be_bytes());
        write(14, &self.reflector_port.to_be_bytes());
        write(64, &self.payload_bytes.saturating_sub(mode.header_bytes()).to_be_bytes());
        write(68, &encode_ntp_time(now_ns).to_be_bytes());
        // A duration in the format of timestamps: seconds, and a fraction of them.
        let fraction = (u64::from(self.timeout.subsec_nanos()) << 32) / 1_000_000_000;
        write(76, &(self.timeout.as_secs() << 32 | fraction).to_be_bytes());
        // The DSCP as Type-P descriptor.
        write(84, &[self.dscp.unwrap_or(0)]);
        message
    }

    /// Returns the session that a message asks for; `None` if it is not one between these addresses,
    /// or none that this reflector supports.
    pub(super) fn decode(
        message: &[u8],
        mode: TwampMode,
        sender: IpAddr,
        reflector: IpAddr,
    ) -> Option<TwampSessionRequest> {
        let is_ipv6 = sender.is_ipv6();
        let number = |at: usize| u32::from_be_bytes(field(message, at));
        let is_address = |at: usize, address: IpAddr| match address {
            _ if message[at..at + 16] == [0; 16] => true,
            IpAddr::V4(v4) => message[at..at + 4] == v4.octets(),
            IpAddr::V6(v6) => message[at..at + 16] == v6.octets(),
        };
        let dscp = message[84];
        let request = TwampSessionRequest {
            is_ipv6,
            sender_port: u16::from_be_bytes(field(message, 12)),
            reflector_port: u16::from_be_bytes(field(message, 14)),
            payload_bytes: number(64).saturating_add(mode.header_bytes()),
            timeout: Duration::from_secs(number(76).into()),
            dscp: Some(dscp),
        };
        let is_supported = message[1] & 0x0f == if is_ipv6 { 6 } else { 4 }
            // Neither a sender nor a receiver of OWAMP, and no schedule.
            && message[2..12] == [0; 10]
            && request.sender_port != 0
            && is_address(16, sender)
            && is_address(32, reflector)
            // Only a DSCP.
            && dscp < 64;
        is_supported.then_some(request)
    }
}

/// Returns a command without fields, without an HMAC.
pub(super) fn encode_command(command: u8) -> Vec<u8> {
    let mut message = vec![0; COMMAND_BYTES];
    message[0] = command;
    message
}

/// Returns the octets at an offset of a message.
pub(super) fn field<const N: usize>(message: &[u8], at: usize) -> [u8; N] {
    let mut octets = [0; N];
    octets.copy_from_slice(&message[at..at + N]);
    octets
}
