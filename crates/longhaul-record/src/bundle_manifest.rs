//! The manifest of a bundle: the length and SHA-256 of every file.
//!
//! Names consist of lower-case letters, digits, `-`, `_` and `.`, so they cannot leave the folder,
//! be hidden, or have a meaning to a shell.

use crate::speed_record::{BundleManifest, MANIFEST_SCHEMA};
use data_encoding::HEXLOWER;
use ring::digest;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The file name of the manifest in a bundle.
pub const MANIFEST_NAME: &str = "manifest.json";
/// The file name of the manifest's signature.
pub const SIGNATURE_NAME: &str = "manifest.json.sig";
/// The maximum size of the manifest.
pub const MAX_MANIFEST_BYTES: u64 = 4 << 20;
/// The maximum number of files in one bundle.
pub const MAX_FILES: usize = 1000;
/// The maximum size of one file: captures are the largest.
pub const MAX_FILE_BYTES: u64 = 64 << 30;
const MAX_NAME_BYTES: usize = 100;

/// Parses a manifest and returns it if it is safe to use, or the reason why not.
pub fn parse_manifest(bytes: &[u8]) -> Result<BundleManifest, String> {
    let manifest: BundleManifest =
        serde_json::from_slice(bytes).map_err(|e| format!("not a manifest: {e}"))?;
    if manifest.schema != MANIFEST_SCHEMA {
        let found: String = manifest.schema.chars().take(40).collect();
        return Err(format!("its schema is {found:?}; this longhaul supports {MANIFEST_SCHEMA}"));
    }
    if manifest.files.len() > MAX_FILES {
        return Err(format!("it lists more than {MAX_FILES} files"));
    }
    let mut names = BTreeSet::new();
    for file in &manifest.files {
        if !is_bundle_file_name(&file.name)
            || [MANIFEST_NAME, SIGNATURE_NAME].contains(&file.name.as_str())
        {
            return Err(format!("it lists {:?}, which is not a file of a bundle", file.name));
        }
        if !names.insert(&file.name) {
            return Err(format!("it lists {} twice", file.name));
        }
        if !is_lower_hex(&file.sha256, 64) {
            return Err(format!("the digest of {} is invalid", file.name));
        }
        if file.bytes > MAX_FILE_BYTES {
            return Err(format!("the stated size of {} is larger than 64 GiB", file.name));
        }
    }
    if manifest.public_key.as_ref().is_some_and(|it| !is_lower_hex(it, 64)) {
        return Err("its public key is invalid".to_owned());
    }
    Ok(manifest)
}

/// Reports whether a bundle may have a file of this name.
pub fn is_bundle_file_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
    (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.starts_with('.') && name.chars().all(plain)
}

/// Reports whether the text is a digest or key: lower-case hexadecimal digits of the given length.
pub fn is_lower_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns length and SHA-256 of a file, reading at most one byte more than `most`.
pub fn digest_file(path: &Path, most: u64) -> io::Result<(u64, String)> {
    let mut file = File::open(path)?.take(most.saturating_add(1));
    let mut context = digest::Context::new(&digest::SHA256);
    let mut buffer = vec![0u8; 256 << 10];
    let mut length = 0;
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok((length, HEXLOWER.encode(context.finish().as_ref())));
        }
        context.update(&buffer[..read]);
        length += read as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speed_record::ManifestEntry;
    use proptest::prelude::*;
    use std::path::Component;

    fn manifest(name: &str) -> BundleManifest {
        BundleManifest {
            schema: MANIFEST_SCHEMA.to_owned(),
            files: vec![ManifestEntry {
                name: name.to_owned(),
                bytes: 3,
                sha256: "ab".repeat(32),
                about: "a file".to_owned(),
            }],
            public_key: None,
        }
    }

    fn parsed(manifest: &BundleManifest) -> Result<BundleManifest, String> {
        parse_manifest(&serde_json::to_vec(manifest).expect("JSON"))
    }

    #[test]
    fn only_plain_names_are_taken() {
        assert_eq!(parsed(&manifest("record.json")), Ok(manifest("record.json")));
        for name in [
            "../etc/passwd",
            "/etc/passwd",
            "a/b",
            "..",
            ".",
            "",
            ".hidden",
            "A.txt",
            "a b",
            "a\0",
            "manifest.json",
            "manifest.json.sig",
            "-\u{202e}",
            "a\\b",
        ] {
            let error = parsed(&manifest(name)).expect_err(name);
            assert!(error.contains("which is not a file of a bundle"), "{name}: {error}");
        }
    }

    #[test]
    fn doubles_wrong_digests_sizes_and_keys_are_refused() {
        let mut twice = manifest("a.txt");
        twice.files.push(twice.files[0].clone());
        let mut digest = manifest("a.txt");
        digest.files[0].sha256 = "AB".repeat(32);
        let mut large = manifest("a.txt");
        large.files[0].bytes = MAX_FILE_BYTES + 1;
        let mut key = manifest("a.txt");
        key.public_key = Some("00".to_owned());
        let mut later = manifest("a.txt");
        later.schema = "longhaul.manifest/2".to_owned();
        let mut many = manifest("a.txt");
        many.files = (0..=MAX_FILES)
            .map(|n| ManifestEntry { name: format!("{n}.txt"), ..twice.files[0].clone() })
            .collect();
        for wrong in [twice, digest, large, key, later, many] {
            assert!(parsed(&wrong).is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_manifest_or_are_refused(bytes in any::<Vec<u8>>()) {
            prop_assert!(parse_manifest(&bytes).is_err());
            println!("attack: tried 1");
        }

        #[test]
        fn any_name_that_is_taken_stays_in_its_folder(name in any::<String>()) {
            if parsed(&manifest(&name)).is_ok() {
                let parts: Vec<_> = Path::new(&name).components().collect();
                prop_assert!(matches!(parts.as_slice(), [Component::Normal(_)]));
            }
        }

        #[test]
        fn any_json_is_a_manifest_or_is_refused(
            name in "[a-z./]{0,9}", sha in "[0-9a-f]{60,66}", bytes: u64, extra in "[a-z]{0,5}",
        ) {
            let text = format!(
                "{{\"schema\":\"{MANIFEST_SCHEMA}\",\"files\":[{{\"name\":\"{name}\",\"bytes\":{bytes},\
                 \"sha256\":\"{sha}\",\"about{extra}\":\"\"}}]}}"
            );
            if let Ok(found) = parse_manifest(text.as_bytes()) {
                prop_assert!(is_bundle_file_name(&found.files[0].name) && found.files[0].sha256.len() == 64);
            }
            println!("attack: tried 1");
        }
    }
}
