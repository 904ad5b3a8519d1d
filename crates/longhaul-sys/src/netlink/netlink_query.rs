//! Queries of the kernel's routing tables, and parsing of the answers.
//!
//! Source: netlink(7), rtnetlink(7). Answers are limited in messages and in time.

use super::{HEADER_BYTES, NetlinkRequest, NetlinkSocket};
use crate::poll;
use socket2::Socket;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

const ANSWER_DEADLINE: Duration = Duration::from_secs(5);
const ANSWER_BYTES: usize = 1 << 16;
/// Hosts with more queues, or more routes in the main tables, are listed incompletely.
const MAX_MESSAGES: usize = 1 << 16;
const NLM_F_DUMP: u16 = libc::NLM_F_DUMP as u16;
/// Bits of an attribute's type that describe its encoding.
const TYPE_FLAGS: u16 = 0xc000;

/// Queries one object by an attribute; returns the messages of the answer, without their headers.
///
/// # Errors
/// The kernel's error, `TimedOut`, or `InvalidData`.
pub(crate) fn query_object(
    kind: u16,
    fixed: &[u8],
    attribute: u16,
    value: &[u8],
) -> io::Result<Vec<Vec<u8>>> {
    let mut message = NetlinkRequest::new(kind, 0, fixed);
    message.attribute(attribute, value);
    NetlinkSocket::open()?.exchange(message)
}

/// Queries all objects of a kind; otherwise as [`query_object`].
pub(crate) fn list_objects(kind: u16, fixed: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    NetlinkSocket::open()?.exchange(NetlinkRequest::new(kind, NLM_F_DUMP, fixed))
}

/// Collects the messages up to the end of an answer or its acknowledgement.
pub(super) fn collect_answers(socket: &Socket) -> io::Result<Vec<Vec<u8>>> {
    let deadline = Instant::now() + ANSWER_DEADLINE;
    let mut answers = Vec::new();
    let mut buffer = vec![0; ANSWER_BYTES];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let [answered] = poll::wait_readable([socket.as_fd()], Some(left))?;
        if !answered {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let length = poll::read_descriptor(socket, &mut buffer)?;
        if parse_messages(&buffer[..length], &mut answers)? || answers.len() > MAX_MESSAGES {
            return Ok(answers);
        }
    }
}

/// Appends the messages of one datagram; returns true at the end of the answer.
fn parse_messages(mut datagram: &[u8], answers: &mut Vec<Vec<u8>>) -> io::Result<bool> {
    while let Some(header) = datagram.first_chunk::<HEADER_BYTES>() {
        let [a, b, c, d, kind_low, kind_high, ..] = *header;
        let length = u32::from_ne_bytes([a, b, c, d]) as usize;
        let kind = u16::from_ne_bytes([kind_low, kind_high]);
        let Some(message) = datagram.get(..length).filter(|_| length >= HEADER_BYTES) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        match i32::from(kind) {
            libc::NLMSG_DONE => return Ok(true),
            // Carries a negated errno after its header; zero acknowledges.
            libc::NLMSG_ERROR => match read_u32(message, HEADER_BYTES) {
                Some(0) => return Ok(true),
                Some(code) => {
                    return Err(io::Error::from_raw_os_error(code.wrapping_neg() as i32));
                }
                None => return Err(io::ErrorKind::InvalidData.into()),
            },
            _ => answers.push(message[HEADER_BYTES..].to_vec()),
        }
        let next = length.next_multiple_of(4).min(datagram.len());
        datagram = &datagram[next..];
    }
    Ok(false)
}

/// Iterates over the attributes after a fixed part, up to the first truncated one.
pub(crate) fn iter_attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let &[a, b, c, d] = bytes.first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let value = bytes.get(4..length)?;
        let next = length.next_multiple_of(4).min(bytes.len());
        bytes = &bytes[next..];
        Some((u16::from_ne_bytes([c, d]) & !TYPE_FLAGS, value))
    })
}

/// Returns the value of one attribute.
pub(crate) fn find_attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    iter_attributes(bytes).find_map(|(kind, value)| (kind == wanted).then_some(value))
}

/// Reads a 32-bit number at an offset.
pub(crate) fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*four))
}

/// Parses a text with or without a terminating zero.
pub(crate) fn parse_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn attributes_are_padded_to_four_bytes() {
        let mut message = NetlinkRequest::new(0, 0, &[]);
        message.text_attribute(1, "fq");
        message.attribute(7, &8_u32.to_ne_bytes());
        let bytes = message.finish();
        let body = &bytes[HEADER_BYTES..];
        assert_eq!(find_attribute(body, 1).map(parse_text).as_deref(), Some("fq"));
        let rate = find_attribute(body, 7).and_then(|value| read_u32(value, 0));
        assert_eq!(rate, Some(8));
        assert_eq!(find_attribute(body, 2), None);
    }

    proptest! {
        #[test]
        fn no_answer_makes_the_reader_fail(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut answers = Vec::new();
            // An error is acceptable here; only a panic or an endless loop is not.
            let _ = parse_messages(&bytes, &mut answers);
            prop_assert!(iter_attributes(&bytes).count() <= 20);
        }
    }
}
