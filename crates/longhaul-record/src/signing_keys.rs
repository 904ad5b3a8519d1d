//! Ed25519 keys that sign bundles: private as PKCS#8 in PEM, public in hexadecimal.
//!
//! Keys made with `openssl genpkey -algorithm ed25519` work as well.

use crate::bundle_manifest::is_lower_hex;
use crate::{RecordError, RecordErrorKind, read_limited_text, write_new_file};
use data_encoding::HEXLOWER;
use pem::{EncodeConfig, LineEnding, Pem};
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use std::path::Path;

/// The maximum size of a key file; a key has a hundred bytes.
const MAX_KEY_FILE_BYTES: u64 = 16 << 10;

/// Signs one bundle.
#[derive(Debug)]
pub struct BundleSigner(Ed25519KeyPair);

impl BundleSigner {
    pub fn read(file: &Path) -> Result<BundleSigner, RecordError> {
        read_private_key(file).map(BundleSigner).map_err(|why| {
            RecordError::input(format!("cannot sign with {}", file.display()))
                .cause(why)
                .hint("generate a key with `longhaul record key FILE`")
        })
    }

    /// Returns the public key in hexadecimal.
    pub fn public_key(&self) -> String {
        HEXLOWER.encode(self.0.public_key().as_ref())
    }

    /// Returns the signature in hexadecimal, with a newline.
    pub fn sign(&self, message: &[u8]) -> String {
        HEXLOWER.encode(self.0.sign(message).as_ref()) + "\n"
    }
}

fn read_private_key(file: &Path) -> Result<Ed25519KeyPair, String> {
    let text = read_limited_text(file, MAX_KEY_FILE_BYTES)?;
    let key = pem::parse(text).map_err(|_| "no private key in PEM")?;
    let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(key.contents());
    pair.map_err(|_| "not an Ed25519 key".to_owned())
}

/// Creates a key file readable only by its owner, and returns the public key.
pub fn create_key_file(file: &Path) -> Result<String, RecordError> {
    let internal = |text: &str| RecordError::new(RecordErrorKind::Host, text);
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
        .map_err(|_| internal("cannot generate a key: no random bytes from the kernel"))?;
    let pair = Ed25519KeyPair::from_pkcs8(document.as_ref())
        .map_err(|_| internal("cannot use the generated key"))?;
    let text = pem::encode_config(
        &Pem::new("PRIVATE KEY", document.as_ref()),
        EncodeConfig::new().set_line_ending(LineEnding::LF),
    );
    let written = write_new_file(file, 0o600, &mut text.as_bytes());
    written.map_err(|e| {
        RecordError::input(format!("cannot write a key to {}", file.display()))
            .cause(e)
            .hint("name a new file in an existing folder")
    })?;
    Ok(HEXLOWER.encode(pair.public_key().as_ref()))
}

/// Parses a public key, given directly or as a file.
pub fn parse_public_key(typed: &str) -> Result<String, RecordError> {
    if is_lower_hex(&typed.to_ascii_lowercase(), 64) {
        return Ok(typed.to_ascii_lowercase());
    }
    let text = read_limited_text(Path::new(typed), MAX_KEY_FILE_BYTES);
    let why = match text.map(|text| text.trim().to_ascii_lowercase()) {
        Ok(key) if is_lower_hex(&key, 64) => return Ok(key),
        Ok(_) => "not 64 hexadecimal digits".to_owned(),
        Err(why) => why,
    };
    let hint = "give the 64 hexadecimal digits that `longhaul record key FILE` printed";
    let message = format!("cannot use {typed} as a public key");
    Err(RecordError::input(message).cause(why).hint(hint))
}

/// Verifies a signature.
pub fn verify_signature(public_key: &str, message: &[u8], signature: &str) -> bool {
    let key = HEXLOWER.decode(public_key.as_bytes());
    let signature = HEXLOWER.decode(signature.trim().as_bytes());
    key.ok().zip(signature.ok()).is_some_and(|(key, signature)| {
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
        let mode = std::fs::metadata(&file).expect("there").permissions().mode();
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
        let der = HEXLOWER.decode(der.as_bytes()).expect("hexadecimal");
        let pem = pem::encode(&Pem::new("PRIVATE KEY", der));
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
