//! Security of the control connection: TLS for secrecy, the token for identity.
//!
//! The certificate is made when `serve` starts and is not verified: it only carries the key
//! exchange. The token proves identity. Each end sends `HMAC-SHA256(token, label ‖ exporter)`. The
//! exporter (RFC 5705, RFC 8446 section 7.5) is keying material of this TLS connection: a man in
//! the middle has two connections with two exporters, so it cannot forward a proof, and without the
//! token it cannot make one. The labels differ by role, so that a proof cannot be sent back to its
//! maker.
//!
//! The proof lets the peer that terminates the connection try tokens offline. Generated tokens have
//! 128 random bits; a short one chosen by hand does not withstand that, and `serve` warns of it.
//!
//! A ticket in the client's first message reserves a place for it ([`make_ticket`]).

mod admission_ticket;
mod channel;
mod client_hello;
mod tls_config;

pub use admission_ticket::{has_ticket, make_ticket};
pub use channel::{ChannelError, ChannelEvent, ControlChannel, TlsHandshake};
pub use client_hello::{HelloNames, read_hello_names};
pub use tls_config::{SERVER_NAME, TlsIdentity, client_config};

use crate::session::SessionRole;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;

/// Keying material of one TLS connection: 32 bytes.
pub type ExporterKey = [u8; 32];

/// The shared secret of the two ends.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthToken(String);

impl fmt::Debug for AuthToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl AuthToken {
    /// Makes a token from user input, without surrounding white space (a file's last newline).
    /// Returns `None` if nothing is left.
    pub fn new(text: &str) -> Option<AuthToken> {
        let text = text.trim();
        (!text.is_empty()).then(|| AuthToken(text.to_owned()))
    }

    /// Generates a token of 128 random bits; `None` if the kernel provides no random bytes.
    pub fn generate() -> Option<AuthToken> {
        random_bytes::<16>().map(|bytes| AuthToken(encode_hex(&bytes)))
    }

    /// Returns the text, for printing at the user's request.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the token is short enough to be guessed offline.
    pub fn is_guessable(&self) -> bool {
        self.0.len() < 16
    }
}

/// Returns random bytes from the kernel.
pub fn random_bytes<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(bytes)
}

fn proof_label(prover: SessionRole) -> &'static [u8] {
    match prover {
        SessionRole::Client => b"longhaul/1 token proof of the initiator",
        SessionRole::Server => b"longhaul/1 token proof of the responder",
    }
}

fn proof_text(prover: SessionRole, exporter: &ExporterKey) -> Vec<u8> {
    [proof_label(prover), exporter.as_slice()].concat()
}

/// Returns the proof that `prover` knows `token`, valid for this connection only.
pub fn make_proof(token: &AuthToken, prover: SessionRole, exporter: &ExporterKey) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, token.0.as_bytes());
    encode_hex(hmac::sign(&key, &proof_text(prover, exporter)).as_ref())
}

/// Verifies a proof in constant time.
pub fn verify_proof(
    token: &AuthToken,
    prover: SessionRole,
    exporter: &ExporterKey,
    proof: &str,
) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, token.0.as_bytes());
    decode_hex(proof)
        .is_some_and(|tag| hmac::verify(&key, &proof_text(prover, exporter), &tag).is_ok())
}

/// Returns a value that is equal on both ends if they run under the same boot of one kernel,
/// without revealing that kernel. `None` if the boot id cannot be read.
pub fn boot_proof(exporter: &ExporterKey) -> Option<String> {
    let boot = longhaul_sys::host::boot_id()?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, exporter);
    Some(encode_hex(hmac::sign(&key, boot.trim().as_bytes()).as_ref()))
}

/// Compares secrets of the same length in constant time.
pub fn equal_in_constant_time(one: &[u8], other: &[u8]) -> bool {
    let differing = one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differing) == 0
}

/// Encodes each byte as two lower-case digits.
pub fn encode_hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

/// Decodes the output of [`encode_hex`], also in upper case. Returns `None` for anything else.
pub fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> =
        text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    let pairs = digits.chunks_exact(2);
    let whole = pairs.remainder().is_empty();
    whole.then(|| pairs.map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_one_token_one_role_and_one_connection() {
        let token = AuthToken::new("correct horse\n").expect("not empty");
        let here = [7; 32];
        let proof = make_proof(&token, SessionRole::Client, &here);
        assert!(verify_proof(&token, SessionRole::Client, &here, &proof));
        assert!(!verify_proof(&token, SessionRole::Server, &here, &proof), "reflected");
        assert!(!verify_proof(&token, SessionRole::Client, &[8; 32], &proof), "relayed");
        let other = AuthToken::new("battery staple").expect("not empty");
        assert!(!verify_proof(&other, SessionRole::Client, &here, &proof));
        for garbage in ["", "zz", "é", &proof[1..], &proof[2..]] {
            assert!(!verify_proof(&token, SessionRole::Client, &here, garbage), "{garbage}");
        }
    }

    #[test]
    fn tokens_are_not_shown_by_accident() {
        let token = AuthToken::generate().expect("the kernel has random bytes");
        assert!(!format!("{token:?}").contains(token.as_str()));
        assert!(!token.is_guessable());
        assert_eq!(AuthToken::new(" \n"), None);
    }

    #[test]
    fn hexadecimal_reads_back() {
        assert_eq!(decode_hex(&encode_hex(&[0, 0x1f, 0xff])), Some(vec![0, 0x1f, 0xff]));
        assert_eq!(decode_hex("1"), None);
    }
}
