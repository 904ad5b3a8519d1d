//! Ed25519 keys that sign bundles: private as PKCS#8 in PEM, public in hexadecimal.
//!
//! Keys made with `openssl genpkey -algorithm ed25519` work as well.

use super::bundle_manifest::is_lower_hex;
use crate::command_failure::{BUG, CommandFailure, HOST, USAGE};
use base64::prelude::{BASE64_STANDARD, Engine};
use longhaul_probe::secure::{decode_hex, encode_hex};
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The maximum size of a key file; a key has a hundred bytes.
const MAX_KEY_FILE_BYTES: u64 = 16 << 10;
const PEM_LINE_LENGTH: usize = 64;

/// Signs one bundle.
#[derive(Debug)]
pub struct BundleSigner(Ed25519KeyPair);

impl BundleSigner {
    pub fn read(file: &Path) -> Result<BundleSigner, CommandFailure> {
        let what = format!("cannot sign with {}", file.display());
        let fail = |why: &str| {
            let mut fail = CommandFailure::new(USAGE, what.clone());
            fail.causes.push(why.to_owned());
            fail.hint(Some("generate a key with `longhaul record key FILE`"))
        };
        let text = read_key_text(file).map_err(|why| fail(&why))?;
        let der = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes())
            .map_err(|_| fail("no private key in PEM"))?;
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der());
        let pair = pair.map_err(|_| fail("not an Ed25519 key"))?;
        Ok(BundleSigner(pair))
    }

    /// Returns the public key in hexadecimal.
    pub fn public_key(&self) -> String {
        encode_hex(self.0.public_key().as_ref())
    }

    /// Returns the signature in hexadecimal, with a newline.
    pub fn sign(&self, message: &[u8]) -> String {
        encode_hex(self.0.sign(message).as_ref()) + "\n"
    }
}

/// Creates a key file readable only by its owner, and returns the public key.
pub fn create_key_file(file: &Path) -> Result<String, CommandFailure> {
    let random = SystemRandom::new();
    let unavailable = |_| {
        CommandFailure::new(
            HOST,
            "cannot generate a key: no random bytes from the kernel",
        )
    };
    let document = Ed25519KeyPair::generate_pkcs8(&random).map_err(unavailable)?;
    let pair = Ed25519KeyPair::from_pkcs8(document.as_ref());
    let pair =
        pair.map_err(|e| CommandFailure::new(BUG, format!("cannot use the generated key: {e}")))?;
    let base64 = BASE64_STANDARD.encode(document.as_ref());
    let mut text = "-----BEGIN PRIVATE KEY-----\n".to_owned();
    for line in base64.as_bytes().chunks(PEM_LINE_LENGTH) {
        text.push_str(&String::from_utf8_lossy(line));
        text.push('\n');
    }
    text.push_str("-----END PRIVATE KEY-----\n");
    let mut options = OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(0o600).open(file);
    let written = opened.and_then(|mut it| {
        it.write_all(text.as_bytes())?;
        it.sync_all()
    });
    written.map_err(|e| {
        let mut fail =
            CommandFailure::new(USAGE, format!("cannot write a key to {}", file.display()));
        fail.causes.push(e.to_string());
        fail.hint(Some("name a new file in an existing folder"))
    })?;
    Ok(encode_hex(pair.public_key().as_ref()))
}

fn read_key_text(file: &Path) -> Result<String, String> {
    let mut text = String::new();
    let opened = File::open(file).map_err(|e| e.to_string())?;
    let read = opened
        .take(MAX_KEY_FILE_BYTES + 1)
        .read_to_string(&mut text);
    if read.map_err(|e| e.to_string())? as u64 > MAX_KEY_FILE_BYTES {
        return Err("larger than 16 KiB".to_owned());
    }
    Ok(text)
}

/// Parses a public key, given directly or as a file.
pub fn parse_public_key(typed: &str) -> Result<String, CommandFailure> {
    if is_lower_hex(&typed.to_ascii_lowercase(), 64) {
        return Ok(typed.to_ascii_lowercase());
    }
    let file = Path::new(typed);
    let in_file = read_key_text(file).map(|text| text.trim().to_ascii_lowercase());
    let why = match in_file {
        Ok(key) if is_lower_hex(&key, 64) => return Ok(key),
        Ok(_) => "not 64 hexadecimal digits".to_owned(),
        Err(why) => why,
    };
    let mut fail = CommandFailure::new(
        USAGE,
        format!("cannot use {} as a public key", file.display()),
    );
    fail.causes.push(why);
    Err(fail.hint(Some(
        "give the 64 hexadecimal digits that `longhaul record key FILE` printed",
    )))
}

/// Verifies a signature.
pub fn verify_signature(public_key: &str, message: &[u8], signature: &str) -> bool {
    let key = decode_hex(public_key);
    let signature = decode_hex(signature.trim());
    key.zip(signature).is_some_and(|(key, signature)| {
        let key = UnparsedPublicKey::new(&ED25519, key);
        key.verify(message, &signature).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn folder(name: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("longhaul-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    #[test]
    fn a_key_is_for_its_owner_alone_and_signs() {
        let folder = folder("keys");
        let file = folder.join("key.pem");
        let public = create_key_file(&file).expect("a key");
        let mode = std::fs::metadata(&file)
            .expect("there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(create_key_file(&file).is_err(), "no key is written over");
        let signer = BundleSigner::read(&file).expect("a key");
        assert_eq!(signer.public_key(), public);
        let signature = signer.sign(b"manifest");
        assert!(verify_signature(&public, b"manifest", &signature));
        assert!(!verify_signature(&public, b"manifesT", &signature));
        assert!(!verify_signature(&"0".repeat(64), b"manifest", &signature));
        assert!(!verify_signature(&public, b"manifest", "äö"));
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn keys_of_openssl_are_taken_and_others_refused() {
        let folder = folder("foreign-keys");
        let file = folder.join("key.pem");
        // The first test vector of RFC 8032, in OpenSSL's format.
        let der = "302e020100300506032b657004220420\
                   9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
        let base64 = BASE64_STANDARD.encode(decode_hex(der).expect("hexadecimal"));
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{base64}\n-----END PRIVATE KEY-----\n");
        std::fs::write(&file, pem).expect("written");
        let signer = BundleSigner::read(&file).expect("a key");
        let public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
        assert_eq!(signer.public_key(), public);
        std::fs::write(&file, "none").expect("written");
        assert!(BundleSigner::read(&file).is_err());
        std::fs::write(&file, format!("{public}\n")).expect("written");
        let in_file = super::parse_public_key(file.to_str().expect("UTF-8")).expect("a public key");
        assert_eq!(in_file, public);
        assert!(super::parse_public_key("nowhere").is_err());
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
