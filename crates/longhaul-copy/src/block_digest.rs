//! Hashes of blocks, and the hash of a file computed from its blocks'.
//!
//! BLAKE3 is a tree over chunks of 1024 bytes. A block whose length is a power of two chunks, at a
//! multiple of its own length, is a subtree: it can be hashed alone and in any order, and the
//! file's hash follows from the blocks' alone. It equals the output of `b3sum`.

use super::BLOCK_BYTES;
use blake3::Hasher;
use blake3::hazmat::{
    HasherExt, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root,
};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

pub(crate) type BlockDigest = [u8; 32];

/// The hash of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockSum {
    /// Hash as a part of a longer file.
    pub inner: BlockDigest,
    /// Hash as a whole file; present for the first block only.
    pub whole: Option<BlockDigest>,
}

/// Blocks are read or received, and hashed, in pieces of this length: recently copied data is still
/// in the core's cache, and hashes a third faster from there.
pub(crate) const PIECE_BYTES: usize = 256 << 10;

/// Hashes one block from its consecutive pieces.
#[derive(Debug)]
pub(crate) struct BlockHasher {
    index: u64,
    hasher: Hasher,
}

impl BlockHasher {
    pub fn new(index: u64) -> BlockHasher {
        let mut hasher = Hasher::new();
        if index > 0 {
            hasher.set_input_offset(index * BLOCK_BYTES);
        }
        BlockHasher { index, hasher }
    }

    pub fn add(&mut self, piece: &[u8]) {
        self.hasher.update(piece);
    }

    /// Returns the hash of one byte up to a whole block.
    pub fn sum(&self) -> BlockSum {
        BlockSum {
            inner: self.hasher.finalize_non_root(),
            whole: (self.index == 0).then(|| *self.hasher.finalize().as_bytes()),
        }
    }
}

/// Hashes a block; `bytes` must not be empty, nor longer than a block.
pub(crate) fn hash_block(index: u64, bytes: &[u8]) -> BlockSum {
    let mut summing = BlockHasher::new(index);
    summing.add(bytes);
    summing.sum()
}

/// The hashes of a file's blocks, added in any order. Memory grows with the blocks that were added,
/// whatever their numbers.
#[derive(Debug, Default)]
pub(crate) struct FileHasher {
    inner: BTreeMap<u64, BlockDigest>,
    first: Option<BlockDigest>,
}

impl FileHasher {
    /// Adds the hash of a block; returns false if it was already known.
    pub fn add_block(&mut self, index: u64, sum: BlockSum) -> bool {
        let Entry::Vacant(vacant) = self.inner.entry(index) else {
            return false;
        };
        vacant.insert(sum.inner);
        self.first = self.first.or(sum.whole);
        true
    }

    /// Returns the hash of the file; `None` if a block is missing, or there are too many.
    pub fn finish(&self, size_bytes: u64) -> Option<BlockDigest> {
        if size_bytes == 0 {
            return self.inner.is_empty().then(|| *blake3::hash(b"").as_bytes());
        }
        let blocks = size_bytes.div_ceil(BLOCK_BYTES);
        // As many blocks as the file has, of which the last is its last, are all its blocks.
        let last = self.inner.last_key_value().map(|(index, _)| *index);
        if self.inner.len() as u64 != blocks || last != Some(blocks - 1) {
            return None;
        }
        if blocks == 1 {
            return self.first;
        }
        let sums: Vec<BlockDigest> = self.inner.values().copied().collect();
        let (left, right) = sums.split_at((left_subtree_len(size_bytes) / BLOCK_BYTES) as usize);
        let (left, right) = (merge_subtree(left), merge_subtree(right));
        Some(*merge_subtrees_root(&left, &right, Mode::Hash).as_bytes())
    }
}

/// Merges the hashes of a subtree; recursion depth is the logarithm of the number of blocks.
fn merge_subtree(sums: &[BlockDigest]) -> BlockDigest {
    match sums {
        [] => BlockDigest::default(),
        [one] => *one,
        more => {
            // All blocks but the last are complete, so the shape depends on their number alone.
            let half = more.len().next_power_of_two() / 2;
            let (left, right) = more.split_at(half);
            merge_subtrees_non_root(&merge_subtree(left), &merge_subtree(right), Mode::Hash)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn the_sum_from_blocks_in_any_order_is_that_of_the_whole(
            blocks in 0_usize..7,
            rest in 0_usize..3,
            seed: u8,
        ) {
            let rest = [0, 1, BLOCK_BYTES as usize - 1][rest];
            let length = blocks * BLOCK_BYTES as usize + rest;
            let bytes: Vec<u8> = (0..length).map(|i| (i / 7) as u8 ^ seed).collect();
            let mut pieces: Vec<(usize, &[u8])> =
                bytes.chunks(BLOCK_BYTES as usize).enumerate().collect();
            let turn = usize::from(seed) % pieces.len().max(1);
            pieces.rotate_left(turn);
            let mut file = FileHasher::default();
            for (index, piece) in pieces {
                let sum = hash_block(index as u64, piece);
                prop_assert!(file.add_block(index as u64, sum));
                prop_assert!(!file.add_block(index as u64, sum));
            }
            prop_assert_eq!(file.finish(length as u64), Some(*blake3::hash(&bytes).as_bytes()));
            prop_assert_eq!(file.finish(length as u64 + BLOCK_BYTES), None);
        }
    }

    #[test]
    fn a_block_far_beyond_the_others_needs_no_memory_between_them() {
        let mut file = FileHasher::default();
        let sum = hash_block(0, b"x");
        assert!(file.add_block(1 << 43, sum));
        assert!(file.add_block(0, sum));
        assert_eq!(file.finish(2 * BLOCK_BYTES), None);
    }
}
