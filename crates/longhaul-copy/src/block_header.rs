//! The header of every block on a data connection of a copy.
//!
//! ```text
//!  0     1      4       8            16           24                        56
//! +-----+------+-------+------------+------------+--------------------------+
//! | kind| zero | file  | block      | length     | tag (32)                 | payload
//! +-----+------+-------+------------+------------+--------------------------+
//! ```
//!
//! Numbers are big-endian. The tag is keyed BLAKE3, with the session's own key, over the 24 bytes
//! before it and the BLAKE3 hash of the payload: without the key, blocks can be neither changed nor
//! added.

/// Length of a block header.
pub const BLOCK_HEADER_BYTES: usize = 56;
const TAGGED_BYTES: usize = 24;

/// Key of the tags of one session.
pub type BlockKey = [u8; 32];

/// Content of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockKind {
    /// `length` bytes of the file.
    Data,
    /// The 32 bytes of the file's hash; `length` is that of the whole file.
    End,
    /// No payload: end of this connection.
    Last,
}

/// The header of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHeader {
    pub kind: BlockKind,
    pub file: u32,
    pub block: u64,
    pub length: u64,
}

impl BlockKind {
    const ALL: [BlockKind; 3] = [BlockKind::Data, BlockKind::End, BlockKind::Last];

    fn number(self) -> u8 {
        match self {
            BlockKind::Data => 1,
            BlockKind::End => 3,
            BlockKind::Last => 5,
        }
    }
}

impl BlockHeader {
    /// Encodes the header of a block whose hash is `sum`.
    pub fn encode(&self, key: &BlockKey, sum: &[u8; 32]) -> [u8; BLOCK_HEADER_BYTES] {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        bytes[..TAGGED_BYTES].copy_from_slice(&self.tagged_bytes());
        bytes[TAGGED_BYTES..].copy_from_slice(self.compute_tag(key, sum).as_bytes());
        bytes
    }

    /// Decodes a header; `None` if its kind is unknown. The tag is verified after the payload
    /// arrives.
    pub fn decode(bytes: &[u8; BLOCK_HEADER_BYTES]) -> Option<(BlockHeader, [u8; 32])> {
        let (front, tag) = bytes.split_first_chunk::<TAGGED_BYTES>()?;
        let &[kind, 0, 0, 0, ref rest @ ..] = front else {
            return None;
        };
        let kind = BlockKind::ALL.into_iter().find(|it| it.number() == kind)?;
        let (file, rest) = rest.split_first_chunk::<4>()?;
        let (block, rest) = rest.split_first_chunk::<8>()?;
        let head = BlockHeader {
            kind,
            file: u32::from_be_bytes(*file),
            block: u64::from_be_bytes(*block),
            length: u64::from_be_bytes(rest.try_into().ok()?),
        };
        Some((head, tag.try_into().ok()?))
    }

    /// Returns whether the tag matches this header and a payload of this hash, in constant time.
    pub fn verify_tag(&self, key: &BlockKey, sum: &[u8; 32], tag: &[u8; 32]) -> bool {
        self.compute_tag(key, sum) == *tag
    }

    fn tagged_bytes(&self) -> [u8; TAGGED_BYTES] {
        let mut bytes = [0; TAGGED_BYTES];
        bytes[0] = self.kind.number();
        bytes[4..8].copy_from_slice(&self.file.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.block.to_be_bytes());
        bytes[16..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    fn compute_tag(&self, key: &BlockKey, sum: &[u8; 32]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(key);
        hasher.update(&self.tagged_bytes()).update(sum);
        hasher.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_head_comes_back_and_its_tag_holds_for_nothing_else(
            kind in 0_usize..3, file: u32, block: u64, length: u64, key: [u8; 32], flip in 0_usize..448,
        ) {
            let head = BlockHeader { kind: BlockKind::ALL[kind], file, block, length };
            let sum = [7; 32];
            let mut bytes = head.encode(&key, &sum);
            let (read, tag) = BlockHeader::decode(&bytes).expect("it was written so");
            prop_assert_eq!(read, head);
            prop_assert!(read.verify_tag(&key, &sum, &tag));
            prop_assert!(!read.verify_tag(&key, &[8; 32], &tag));
            prop_assert!(!read.verify_tag(&[key[0] ^ 1; 32], &sum, &tag) || key == [key[0] ^ 1; 32]);
            bytes[flip / 8] ^= 1 << (flip % 8);
            if let Some((other, tag)) = BlockHeader::decode(&bytes) {
                prop_assert!(!other.verify_tag(&key, &sum, &tag));
            }
        }
    }
}
