//! The journal of an incomplete file: the blocks that it claims to have.

use super::VerifiedBlocks;
use crate::BLOCK_BYTES;
use crate::block_digest::BlockDigest;
use longhaul_probe::wire::FileEntry;
use std::fs::File;
use std::io::{self, Read, Write};

/// Magic of a journal; its last digit is the version.
const MAGIC: &[u8; 8] = b"LHCOPY 1";
const HEAD_BYTES: usize = 8 + 8 + 8 + 8;
/// Size of a record: block number, hash, and the start of the hash of both.
const RECORD_BYTES: usize = 8 + 32 + 8;

/// Encodes the header, with length and time of the source: another source invalidates the journal.
fn encode_header(entry: &FileEntry) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(MAGIC);
    head[8..16].copy_from_slice(&entry.size_bytes.unwrap_or(0).to_be_bytes());
    head[16..24].copy_from_slice(&entry.modified_ns.to_be_bytes());
    head[24..].copy_from_slice(&BLOCK_BYTES.to_be_bytes());
    head
}

pub(super) fn encode_record(index: u64, sum: &BlockDigest) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    bytes[..8].copy_from_slice(&index.to_be_bytes());
    bytes[8..40].copy_from_slice(sum);
    let check = blake3::hash(&bytes[..40]);
    bytes[40..].copy_from_slice(&check.as_bytes()[..8]);
    bytes
}

/// Reads the claims of the journal; none if it belongs to another source or is invalid.
pub(super) fn load_claims(
    journal: &mut File,
    entry: &FileEntry,
) -> io::Result<Vec<(u64, BlockDigest)>> {
    let blocks = entry.size_bytes.unwrap_or(0).div_ceil(BLOCK_BYTES);
    // Each block is recorded once or, in a resumed copy, twice.
    let most = HEAD_BYTES as u64 + 2 * blocks * RECORD_BYTES as u64;
    let mut bytes = Vec::new();
    Read::by_ref(journal).take(most).read_to_end(&mut bytes)?;
    Ok(parse_journal_claims(&bytes, entry, blocks))
}

fn parse_journal_claims(bytes: &[u8], entry: &FileEntry, blocks: u64) -> Vec<(u64, BlockDigest)> {
    let Some(records) = bytes.strip_prefix(&encode_header(entry)) else {
        return Vec::new();
    };
    let read = |bytes: &[u8]| {
        let (index, rest) = bytes.split_first_chunk::<8>()?;
        let (sum, _) = rest.split_first_chunk::<32>()?;
        let index = u64::from_be_bytes(*index);
        let whole = encode_record(index, sum) == *bytes;
        (whole && index < blocks).then_some((index, *sum))
    };
    let mut claims: Vec<_> = records.chunks_exact(RECORD_BYTES).map_while(read).collect();
    claims.sort_unstable();
    claims.dedup_by_key(|(index, _)| *index);
    claims
}

/// Rewrites the journal with the verified blocks only.
pub(super) fn rewrite_journal(
    journal: &mut File,
    entry: &FileEntry,
    left: &VerifiedBlocks,
) -> io::Result<()> {
    let mut bytes = encode_header(entry).to_vec();
    for (index, sum) in left {
        bytes.extend(encode_record(*index, &sum.inner));
    }
    journal.set_len(0)?;
    io::Seek::rewind(journal)?;
    journal.write_all(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(blocks: u64) -> FileEntry {
        FileEntry {
            path: String::new(),
            folder: false,
            size_bytes: Some(blocks * BLOCK_BYTES),
            mode: 0o644,
            modified_ns: 5,
        }
    }

    fn journal(records: &[(u64, BlockDigest)], entry: &FileEntry) -> Vec<u8> {
        let mut bytes = encode_header(entry).to_vec();
        for (index, sum) in records {
            bytes.extend(encode_record(*index, sum));
        }
        bytes
    }

    #[test]
    fn the_journal_of_another_source_claims_nothing() {
        let bytes = journal(&[(1, [1; 32])], &entry(4));
        assert_eq!(parse_journal_claims(&bytes, &entry(4), 4), [(1, [1; 32])]);
        let later = FileEntry { modified_ns: 6, ..entry(4) };
        assert!(parse_journal_claims(&bytes, &later, 4).is_empty());
        assert!(parse_journal_claims(&bytes, &entry(5), 5).is_empty());
    }

    proptest! {
        #[test]
        fn a_torn_or_mangled_journal_claims_only_what_is_whole(
            records in prop::collection::vec((0_u64..9, any::<[u8; 32]>()), 0..9),
            cut in 0_usize..600,
            flip in prop::option::of(0_usize..600),
        ) {
            let mut bytes = journal(&records, &entry(8));
            bytes.truncate(cut);
            if let Some(place) = flip.filter(|place| *place < bytes.len()) {
                bytes[place] ^= 1;
            }
            for claim in parse_journal_claims(&bytes, &entry(8), 8) {
                prop_assert!(claim.0 < 8 && records.contains(&claim));
            }
        }
    }
}
