//! Authentication and encryption of TWAMP (RFC 4656, sections 3.1, 3.2 and 4.1.2; RFC 5357, section 4).
//!
//! Both ends know a passphrase by its KeyID. The client chooses the session keys, and sends them in a
//! token that is encrypted with a key derived from the passphrase. From Server-Start on, each end
//! encrypts all blocks as one stream of AES-128-CBC, in which every message ends with an HMAC of
//! what was sent since the last one. The keys of the packets are derived from those of the
//! connection and the identifier of the session.

use super::test_packet::{HMAC_BYTES, parse_key_text};
use crate::secure::equal_in_constant_time;
use aes::Aes128;
use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use cbc::{Decryptor, Encryptor};
use ring::{hmac, pbkdf2};
use std::fmt;
use std::num::NonZeroU32;

/// The length of a block of AES, of its keys, and of the fields that are encrypted with it.
pub(super) const BLOCK_BYTES: usize = 16;
/// The length of the field KeyID.
pub(super) const KEY_ID_BYTES: usize = 80;
pub(super) const TOKEN_BYTES: usize = 64;
const HMAC_KEY_BYTES: usize = 32;
const ZERO_IV: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// A shared secret with its name.
#[derive(Clone, PartialEq, Eq)]
pub struct TwampKey {
    id: String,
    passphrase: Vec<u8>,
}

impl fmt::Debug for TwampKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TwampKey({})", self.id)
    }
}

impl TwampKey {
    /// Returns the keys of a text with one in each line: KeyID, a space, and the passphrase, which is
    /// hexadecimal if it begins with `0x`. Empty lines and lines that begin with `#` are comments. The
    /// error says what is wrong with the text.
    pub fn parse_lines(text: &str) -> Result<Vec<TwampKey>, String> {
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let keys = lines.map(|(number, line)| {
            Self::parse(line).map_err(|why| format!("has a line {number} that {why}"))
        });
        match keys.collect::<Result<Vec<TwampKey>, String>>()? {
            keys if keys.is_empty() => Err("is empty".to_owned()),
            keys => Ok(keys),
        }
    }

    fn parse(line: &str) -> Result<TwampKey, &'static str> {
        let (id, key) = line
            .split_once(char::is_whitespace)
            .ok_or("is not a KeyID, a space and a passphrase")?;
        if id.len() > KEY_ID_BYTES {
            return Err("has a KeyID of more than 80 bytes");
        }
        Ok(TwampKey { id: id.to_owned(), passphrase: parse_key_text(key.trim_start())? })
    }

    /// Returns the name as the field KeyID.
    pub(super) fn encode_id(&self) -> [u8; KEY_ID_BYTES] {
        let mut field = [0; KEY_ID_BYTES];
        field[..self.id.len()].copy_from_slice(self.id.as_bytes());
        field
    }
}

/// The fields of the greeting that a token answers.
#[derive(Debug, Clone, Copy)]
pub(super) struct TokenChallenge {
    pub challenge: [u8; BLOCK_BYTES],
    pub salt: [u8; BLOCK_BYTES],
    pub count: NonZeroU32,
}

impl TokenChallenge {
    fn derive_key(&self, passphrase: &[u8]) -> [u8; BLOCK_BYTES] {
        let mut key = [0; BLOCK_BYTES];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA1, self.count, &self.salt, passphrase, &mut key);
        key
    }

    /// Encrypts session keys to a token.
    pub fn seal_token(&self, key: &TwampKey, keys: &ConnectionKeys) -> [u8; TOKEN_BYTES] {
        let mut token = [0; TOKEN_BYTES];
        token[..16].copy_from_slice(&self.challenge);
        token[16..32].copy_from_slice(&keys.aes);
        token[32..].copy_from_slice(&keys.hmac);
        encrypt_blocks(&self.derive_key(&key.passphrase), &mut token);
        token
    }

    /// Returns the session keys of a token; `None` if it was not made with one of `keys`. Takes the
    /// same time if none has this name.
    pub fn open_token(
        &self,
        keys: &[TwampKey],
        id: &[u8],
        token: &[u8; TOKEN_BYTES],
    ) -> Option<ConnectionKeys> {
        let key = keys.iter().find(|key| key.encode_id() == id);
        let derived = self.derive_key(key.map_or(&[], |key| &key.passphrase));
        let mut token = *token;
        decrypt_blocks(&derived, &mut token);
        let is_right = equal_in_constant_time(&token[..16], &self.challenge);
        key.filter(|_| is_right)?;
        let (aes, hmac) = token[16..].split_at(BLOCK_BYTES);
        Some(ConnectionKeys { aes: aes.try_into().ok()?, hmac: hmac.try_into().ok()? })
    }
}

/// The keys of a control connection.
#[derive(Clone, Copy)]
pub(super) struct ConnectionKeys {
    pub aes: [u8; BLOCK_BYTES],
    pub hmac: [u8; HMAC_KEY_BYTES],
}

impl fmt::Debug for ConnectionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConnectionKeys")
    }
}

impl ConnectionKeys {
    /// Derives the keys of the packets of a session from its identifier.
    pub fn derive_test_key(&self, sid: &[u8; BLOCK_BYTES], is_encrypted: bool) -> TestSessionKey {
        let ConnectionKeys { mut aes, mut hmac } = *self;
        encrypt_blocks(sid, &mut aes);
        encrypt_blocks(sid, &mut hmac);
        TestSessionKey { aes, hmac: hmac_key(&hmac), is_encrypted }
    }
}

/// Both directions of a control connection, as one end sees them.
pub(super) struct ControlCipher {
    encryptor: Encryptor<Aes128>,
    decryptor: Decryptor<Aes128>,
    key: hmac::Key,
    sent: hmac::Context,
    received: hmac::Context,
}

impl fmt::Debug for ControlCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ControlCipher")
    }
}

impl ControlCipher {
    /// Creates the cipher of an end with this IV; `peer_iv` is that of the other end.
    pub fn new(
        keys: &ConnectionKeys,
        own_iv: &[u8; BLOCK_BYTES],
        peer_iv: &[u8; BLOCK_BYTES],
    ) -> ControlCipher {
        let key = hmac_key(&keys.hmac);
        ControlCipher {
            encryptor: Encryptor::new(&keys.aes.into(), &(*own_iv).into()),
            decryptor: Decryptor::new(&keys.aes.into(), &(*peer_iv).into()),
            sent: hmac::Context::with_key(&key),
            received: hmac::Context::with_key(&key),
            key,
        }
    }

    /// Encrypts blocks without an HMAC, which the next message includes.
    pub fn encrypt_part(&mut self, blocks: &mut [u8]) {
        self.sent.update(blocks);
        for block in blocks.as_chunks_mut().0 {
            self.encryptor.encrypt_block(block.into());
        }
    }

    /// Decrypts blocks without an HMAC, which the next message includes.
    pub fn decrypt_part(&mut self, blocks: &mut [u8]) {
        for block in blocks.as_chunks_mut().0 {
            self.decryptor.decrypt_block(block.into());
        }
        self.received.update(blocks);
    }

    /// Writes the HMAC into the last block of a message, and encrypts it.
    pub fn seal_message(&mut self, message: &mut [u8]) {
        let (text, tag) = message.split_at_mut(message.len() - HMAC_BYTES);
        self.encrypt_part(text);
        let sent = std::mem::replace(&mut self.sent, hmac::Context::with_key(&self.key));
        tag.copy_from_slice(&sent.sign().as_ref()[..HMAC_BYTES]);
        for block in tag.as_chunks_mut().0 {
            self.encryptor.encrypt_block(block.into());
        }
    }

    /// Decrypts the rest of a message; returns whether its HMAC, the last block, is right.
    pub fn open_message(&mut self, message: &mut [u8]) -> bool {
        let (text, tag) = message.split_at_mut(message.len() - HMAC_BYTES);
        self.decrypt_part(text);
        for block in tag.as_chunks_mut().0 {
            self.decryptor.decrypt_block(block.into());
        }
        let received = std::mem::replace(&mut self.received, hmac::Context::with_key(&self.key));
        equal_in_constant_time(&received.sign().as_ref()[..HMAC_BYTES], tag)
    }
}

/// The keys of the packets of a session. Without encryption, only the first block is encrypted and
/// covered by the HMAC, so that it can be made before the time is read.
#[derive(Clone)]
pub struct TestSessionKey {
    aes: [u8; BLOCK_BYTES],
    hmac: hmac::Key,
    is_encrypted: bool,
}

impl fmt::Debug for TestSessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TestSessionKey")
    }
}

impl TestSessionKey {
    /// Encrypts the fields of a packet, which end at `end`, and writes the HMAC behind them.
    pub(super) fn seal_packet(&self, packet: &mut [u8], end: usize) {
        let (fields, rest) = packet.split_at_mut(end);
        let covered = self.covered(fields);
        rest[..HMAC_BYTES].copy_from_slice(&self.sign(covered));
        encrypt_blocks(&self.aes, covered);
    }

    /// Decrypts the fields of a packet, which end at `end`; returns whether the HMAC behind them is
    /// right.
    pub(super) fn open_packet(&self, packet: &mut [u8], end: usize) -> bool {
        let (fields, rest) = packet.split_at_mut(end);
        let covered = self.covered(fields);
        decrypt_blocks(&self.aes, covered);
        equal_in_constant_time(&self.sign(covered), &rest[..HMAC_BYTES])
    }

    fn covered<'a>(&self, fields: &'a mut [u8]) -> &'a mut [u8] {
        let end = if self.is_encrypted { fields.len() } else { BLOCK_BYTES };
        &mut fields[..end]
    }

    fn sign(&self, text: &[u8]) -> [u8; HMAC_BYTES] {
        let mut tag = [0; HMAC_BYTES];
        tag.copy_from_slice(&hmac::sign(&self.hmac, text).as_ref()[..HMAC_BYTES]);
        tag
    }
}

fn hmac_key(bytes: &[u8]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, bytes)
}

fn encrypt_blocks(key: &[u8; BLOCK_BYTES], blocks: &mut [u8]) {
    let mut encryptor = Encryptor::<Aes128>::new(key.into(), &ZERO_IV.into());
    for block in blocks.as_chunks_mut().0 {
        encryptor.encrypt_block(block.into());
    }
}

fn decrypt_blocks(key: &[u8; BLOCK_BYTES], blocks: &mut [u8]) {
    let mut decryptor = Decryptor::<Aes128>::new(key.into(), &ZERO_IV.into());
    for block in blocks.as_chunks_mut().0 {
        decryptor.decrypt_block(block.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::test_packet::PacketCodec;
    use crate::latency::test_packet::TestRequest;
    use longhaul_model::report::v1::latency::LatencyProtocol;

    fn octets<const N: usize>(first: u8) -> [u8; N] {
        std::array::from_fn(|at| first + at as u8)
    }

    fn keys() -> ConnectionKeys {
        ConnectionKeys { aes: octets(0x20), hmac: octets(0x40) }
    }

    fn hex(text: &str) -> Vec<u8> {
        parse_key_text(&format!("0x{text}")).expect("hexadecimal")
    }

    #[test]
    fn a_token_is_that_of_openssl() {
        let count = NonZeroU32::new(2048).expect("not zero");
        let challenge = TokenChallenge { challenge: octets(0), salt: octets(0x10), count };
        let known =
            TwampKey::parse_lines("# of clients\n\nann 0x00\njoe open sesame\n").expect("keys");
        let token = challenge.seal_token(&known[1], &keys());
        let expected = "2726c667fb10649c4528ddd4a95041dc214e222484309f2bb90313fd7b7bff99\
                        374f31538551b018c64deeecc48ae5877ab1f9f7304eb0d81b4672bb4620acb9";
        assert_eq!(token.as_slice(), hex(expected));
        let opened = |id: &TwampKey| challenge.open_token(&known, &id.encode_id(), &token);
        let found = opened(&known[1]).expect("made with this key");
        assert_eq!((found.aes, found.hmac), (keys().aes, keys().hmac));
        assert!(opened(&known[0]).is_none());
    }

    #[test]
    fn packets_of_both_modes_are_those_of_openssl() {
        let request = TestRequest {
            sequence: 0x0102_0304,
            timestamp: 0x1112_1314_1516_1718,
            error: 0x8a01,
            session: 0,
        };
        for (is_encrypted, expected) in [
            (
                false,
                "abc0c58f3251153fbdb7eec63def80b511121314151617188a01000000000000\
                 84e76a5d86ad13a63526d77905687532",
            ),
            (
                true,
                "abc0c58f3251153fbdb7eec63def80b5843fcbeb9ffdaecc42e3c4ac795e408b\
                 ecb0a0a029058045664ef6b08c0a459d",
            ),
        ] {
            let key = keys().derive_test_key(&octets(0x60), is_encrypted);
            let codec = PacketCodec::for_session(Some(key));
            let mut packet = [0xff; 112];
            codec.encode_request(&request, LatencyProtocol::Twamp, &mut packet);
            assert_eq!(packet[..48], hex(expected));
            assert_eq!(packet[48..], [0; 64]);
            assert_eq!(codec.decode_request(&packet), Some(request));
            for at in [0, 15, 47] {
                let mut changed = packet;
                changed[at] ^= 1;
                assert_eq!(codec.decode_request(&changed), None, "octet {at}");
            }
        }
    }

    #[test]
    fn a_text_without_usable_keys_says_why() {
        for (text, part) in [
            ("# none\n", "is empty"),
            ("joe secret\nann", "has a line 2 that is not a KeyID"),
            ("joe 0x1", "has a line 1 that has no even number"),
            (&format!("{} secret", "j".repeat(81)), "more than 80 bytes"),
        ] {
            let why = TwampKey::parse_lines(text).expect_err("no keys");
            assert!(why.contains(part), "{why}");
        }
    }
}
