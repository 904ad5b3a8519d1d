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

mod channel;
mod tls;

pub use channel::{Channel, ChannelError, Handshake, Heard};
pub use tls::{TlsIdentity, initiator_config};

use crate::session::Role;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;

/// Keying material of one TLS connection: 32 bytes.
pub type Exporter = [u8; 32];

/// The shared secret of the two ends.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// Makes a token from user input, without surrounding white space (a file's last newline).
    /// Returns `None` if nothing is left.
    pub fn new(text: &str) -> Option<Token> {
        let text = text.trim();
        (!text.is_empty()).then(|| Token(text.to_owned()))
    }

    /// Generates a token of 128 random bits; `None` if the kernel provides no random bytes.
    pub fn generate() -> Option<Token> {
        random::<16>().map(|bytes| Token(hex(&bytes)))
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
pub(crate) fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(bytes)
}

fn label(prover: Role) -> &'static [u8] {
    match prover {
        Role::Initiator => b"longhaul/1 token proof of the initiator",
        Role::Responder => b"longhaul/1 token proof of the responder",
    }
}

fn proof_text(prover: Role, exporter: &Exporter) -> Vec<u8> {
    [label(prover), exporter.as_slice()].concat()
}

/// Returns the proof that `prover` knows `token`, valid for this connection only.
pub fn prove(token: &Token, prover: Role, exporter: &Exporter) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, token.0.as_bytes());
    hex(hmac::sign(&key, &proof_text(prover, exporter)).as_ref())
}

/// Verifies a proof in constant time.
pub fn proves(token: &Token, prover: Role, exporter: &Exporter, proof: &str) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, token.0.as_bytes());
    unhex(proof).is_some_and(|tag| hmac::verify(&key, &proof_text(prover, exporter), &tag).is_ok())
}

/// Returns a value that is equal on both ends if they run under the same boot of one kernel,
/// without revealing that kernel. `None` if the boot id cannot be read.
pub fn boot_proof(exporter: &Exporter) -> Option<String> {
    let boot = longhaul_sys::host::boot_id()?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, exporter);
    Some(hex(hmac::sign(&key, boot.trim().as_bytes()).as_ref()))
}

/// Encodes each byte as two lower-case digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| DIGITS[usize::from(digit)])
        .collect()
}

/// Decodes the output of [`hex`], also in upper case. Returns `None` for anything else.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .chars()
        .map(|c| c.to_digit(16).map(|digit| digit as u8))
        .collect::<Option<_>>()?;
    let pairs = digits.chunks_exact(2);
    let whole = pairs.remainder().is_empty();
    whole.then(|| pairs.map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_one_token_one_role_and_one_connection() {
        let token = Token::new("correct horse\n").expect("not empty");
        let here = [7; 32];
        let proof = prove(&token, Role::Initiator, &here);
        assert!(proves(&token, Role::Initiator, &here, &proof));
        assert!(!proves(&token, Role::Responder, &here, &proof), "reflected");
        assert!(
            !proves(&token, Role::Initiator, &[8; 32], &proof),
            "relayed"
        );
        let other = Token::new("battery staple").expect("not empty");
        assert!(!proves(&other, Role::Initiator, &here, &proof));
        for garbage in ["", "zz", "é", &proof[1..], &proof[2..]] {
            assert!(
                !proves(&token, Role::Initiator, &here, garbage),
                "{garbage}"
            );
        }
    }

    #[test]
    fn tokens_are_not_shown_by_accident() {
        let token = Token::generate().expect("the kernel has random bytes");
        assert!(!format!("{token:?}").contains(token.as_str()));
        assert!(!token.is_guessable());
        assert_eq!(Token::new(" \n"), None);
    }

    #[test]
    fn hexadecimal_reads_back() {
        assert_eq!(unhex(&hex(&[0, 0x1f, 0xff])), Some(vec![0, 0x1f, 0xff]));
        assert_eq!(unhex("1"), None);
    }
}
