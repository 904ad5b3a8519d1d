//! Lengths and digests of files, as listed in the manifest of a bundle.

pub use longhaul_import::manifest_text::{
    MANIFEST_NAME, MAX_FILE_BYTES, MAX_FILES, MAX_MANIFEST_BYTES, SIGNATURE_NAME,
    is_bundle_file_name, is_lower_hex, parse_manifest,
};
use longhaul_probe::secure::encode_hex;
use ring::digest;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Returns length and SHA-256 of a file, reading at most one byte more than `most`.
pub fn digest_file(path: &Path, most: u64) -> io::Result<(u64, String)> {
    let mut file = File::open(path)?.take(most.saturating_add(1));
    let mut context = digest::Context::new(&digest::SHA256);
    let mut buffer = vec![0u8; 256 << 10];
    let mut length = 0;
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok((length, encode_hex(context.finish().as_ref())));
        }
        context.update(&buffer[..read]);
        length += read as u64;
    }
}
