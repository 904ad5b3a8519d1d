//! Sums of blocks, and the sum of a file from those of its blocks.
//!
//! BLAKE3 is a tree over pieces of 1024 bytes. A block of a power of two of them, at a multiple of
//! its own length, is a subtree: its sum is computed wherever the block happens to be, in any
//! order, and the file's follows from the blocks' alone. It is the sum that `b3sum` prints.

use super::BLOCK_BYTES;
use blake3::Hasher;
use blake3::hazmat::{
    HasherExt, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root,
};

pub(crate) type Digest = [u8; 32];

/// The sum of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockSum {
    /// As a part of a longer file.
    pub inner: Digest,
    /// As a whole file; of the first block alone.
    pub whole: Option<Digest>,
}

/// A block is read, or received, and summed up in pieces of this length: what has just been copied
/// is still in the core's own cache, and sums up a third faster from there.
pub(crate) const PIECE_BYTES: usize = 256 << 10;

/// The sum of one block, from its pieces in their order.
#[derive(Debug)]
pub(crate) struct Summing {
    index: u64,
    hasher: Hasher,
}

impl Summing {
    pub fn new(index: u64) -> Summing {
        let mut hasher = Hasher::new();
        if index > 0 {
            hasher.set_input_offset(index * BLOCK_BYTES);
        }
        Summing { index, hasher }
    }

    pub fn add(&mut self, piece: &[u8]) {
        self.hasher.update(piece);
    }

    /// Of at least one byte, and no more than a block.
    pub fn sum(&self) -> BlockSum {
        BlockSum {
            inner: self.hasher.finalize_non_root(),
            whole: (self.index == 0).then(|| *self.hasher.finalize().as_bytes()),
        }
    }
}

/// `bytes` must not be empty, nor longer than a block.
pub(crate) fn of_block(index: u64, bytes: &[u8]) -> BlockSum {
    let mut summing = Summing::new(index);
    summing.add(bytes);
    summing.sum()
}

/// The sums of a file's blocks, as they come.
#[derive(Debug, Default)]
pub(crate) struct FileSum {
    inner: Vec<Option<Digest>>,
    first: Option<Digest>,
    known: u64,
}

impl FileSum {
    /// Takes the sum of a block; false: it was known already.
    pub fn note(&mut self, index: u64, sum: BlockSum) -> bool {
        let place = index as usize;
        if self.inner.len() <= place {
            self.inner.resize(place + 1, None);
        }
        if self.inner[place].is_some() {
            return false;
        }
        self.inner[place] = Some(sum.inner);
        self.first = self.first.or(sum.whole);
        self.known += 1;
        true
    }

    /// The sum of the file; `None`: a block is missing, or there are too many.
    pub fn of_file(&self, size_bytes: u64) -> Option<Digest> {
        if size_bytes == 0 {
            return (self.known == 0).then(|| *blake3::hash(b"").as_bytes());
        }
        let blocks = size_bytes.div_ceil(BLOCK_BYTES);
        if self.known != blocks || self.inner.len() as u64 != blocks {
            return None;
        }
        if blocks == 1 {
            return self.first;
        }
        let sums = self
            .inner
            .iter()
            .copied()
            .collect::<Option<Vec<Digest>>>()?;
        let (left, right) = sums.split_at((left_subtree_len(size_bytes) / BLOCK_BYTES) as usize);
        let (left, right) = (subtree(left), subtree(right));
        Some(*merge_subtrees_root(&left, &right, Mode::Hash).as_bytes())
    }
}

/// The tree is as deep as the logarithm of the number of blocks.
fn subtree(sums: &[Digest]) -> Digest {
    match sums {
        [] => Digest::default(),
        [one] => *one,
        more => {
            // All but the last are whole blocks, so that the shape depends on their number alone.
            let half = more.len().next_power_of_two() / 2;
            let (left, right) = more.split_at(half);
            merge_subtrees_non_root(&subtree(left), &subtree(right), Mode::Hash)
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
            let mut file = FileSum::default();
            for (index, piece) in pieces {
                let sum = of_block(index as u64, piece);
                prop_assert!(file.note(index as u64, sum));
                prop_assert!(!file.note(index as u64, sum));
            }
            prop_assert_eq!(file.of_file(length as u64), Some(*blake3::hash(&bytes).as_bytes()));
            prop_assert_eq!(file.of_file(length as u64 + BLOCK_BYTES), None);
        }
    }
}
