//! The ticket of a client that knows the token: it gets a place of its own before a key is exchanged.
//!
//! The client sends it as the name of an application protocol (ALPN, RFC 7301) in its ClientHello,
//! where every server of this protocol ignores what it does not know:
//!
//! ```text
//! label (16) ‖ time slot (8) ‖ random (16) ‖ HMAC-SHA256(token, label ‖ time slot ‖ random)
//! ```
//!
//! A ticket proves nothing: whoever reads one may use it until its time slot is over, and gets only
//! the place of a client with a ticket. It lets a reader of the connection try tokens offline, so
//! only tokens that cannot be guessed have tickets ([`AuthToken::is_guessable`]).

use super::{AuthToken, random_bytes};
use ring::hmac;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const TICKET_LABEL: &[u8; 16] = b"longhaul-ticket1";
const SLOT_BYTES: usize = 8;
const SIGNED_BYTES: usize = TICKET_LABEL.len() + SLOT_BYTES + 16;
const TICKET_BYTES: usize = SIGNED_BYTES + 32;
/// The length of a time slot. The clocks of the two ends may differ by as much.
const SLOT_TIME: Duration = Duration::from_secs(600);

fn current_slot() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_secs() / SLOT_TIME.as_secs()
}

fn ticket_key(token: &AuthToken) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, token.as_str().as_bytes())
}

/// Makes a ticket; `None` for a token that can be guessed, or without random bytes.
pub fn make_ticket(token: &AuthToken) -> Option<Vec<u8>> {
    make_ticket_of_slot(token, current_slot())
}

fn make_ticket_of_slot(token: &AuthToken, slot: u64) -> Option<Vec<u8>> {
    if token.is_guessable() {
        return None;
    }
    let random = random_bytes::<16>()?;
    let signed = [TICKET_LABEL.as_slice(), &slot.to_be_bytes(), &random].concat();
    let tag = hmac::sign(&ticket_key(token), &signed);
    Some([&signed, tag.as_ref()].concat())
}

/// Returns whether a ClientHello contains a ticket of this time. It is found by its label: its tag
/// makes a parser superfluous.
pub fn has_ticket(token: &AuthToken, client_hello: &[u8]) -> bool {
    has_ticket_of_slot(token, client_hello, current_slot())
}

fn has_ticket_of_slot(token: &AuthToken, client_hello: &[u8], now: u64) -> bool {
    let mut windows = client_hello.windows(TICKET_BYTES);
    let Some(ticket) = windows.find(|window| window.starts_with(TICKET_LABEL)) else {
        return false;
    };
    let (signed, tag) = ticket.split_at(SIGNED_BYTES);
    let slot = signed[TICKET_LABEL.len()..][..SLOT_BYTES].try_into().map(u64::from_be_bytes);
    !token.is_guessable()
        && slot.is_ok_and(|slot| slot.abs_diff(now) <= 1)
        && hmac::verify(&ticket_key(token), signed, tag).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> AuthToken {
        AuthToken::new(text).expect("not empty")
    }

    #[test]
    fn a_ticket_is_good_for_its_token_and_its_time_slot() {
        let own = token("a token of more than sixteen characters");
        let ticket = make_ticket_of_slot(&own, 1000).expect("a ticket");
        let hello = [b"\x16\x03\x01".as_slice(), &ticket, b"more"].concat();
        for (now, good) in [(998, false), (999, true), (1000, true), (1001, true), (1002, false)] {
            assert_eq!(has_ticket_of_slot(&own, &hello, now), good, "{now}");
        }
        assert!(!has_ticket_of_slot(&token("another token of that length"), &hello, 1000));
        for at in 0..ticket.len() {
            let mut forged = ticket.clone();
            forged[at] ^= 1;
            assert!(!has_ticket_of_slot(&own, &forged, 1000), "byte {at}");
        }
        for length in 0..ticket.len() {
            assert!(!has_ticket_of_slot(&own, &ticket[..length], 1000), "{length} bytes");
        }
        assert_ne!(ticket, make_ticket_of_slot(&own, 1000).expect("a ticket"), "no two are equal");
    }

    #[test]
    fn a_token_that_can_be_guessed_has_no_ticket() {
        assert_eq!(make_ticket(&token("fifteen letters")), None);
    }
}
