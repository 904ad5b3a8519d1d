//! Secrets in files: the first line of a file is the secret.

use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

const MAX_SECRET_BYTES: u64 = 4096;

/// The SHA-256 of a secret, which is kept instead of the secret.
pub type SecretDigest = [u8; SHA256_OUTPUT_LEN];

/// Returns the secret in a file. An empty first line is an error.
pub fn read_secret(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_SECRET_BYTES).read_to_string(&mut text)?;
    match text.lines().next().unwrap_or_default().trim() {
        "" => Err(io::Error::other("its first line is empty")),
        line => Ok(line.to_owned()),
    }
}

pub fn hash_secret(secret: &[u8]) -> SecretDigest {
    let mut hash = [0; SHA256_OUTPUT_LEN];
    hash.copy_from_slice(digest(&SHA256, secret).as_ref());
    hash
}
