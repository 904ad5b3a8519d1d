//! Server authentication: iperf3's tokens, and the users they name.
//!
//! A token is base64 of three lines (user, password, time), encrypted for our RSA key with OAEP
//! (since 3.17) or PKCS #1 v1.5 (before). A token is not bound to a connection, so each is accepted
//! only once: it is remembered for as long as it is valid.
//!
//! Every refusal has the same content and comes at the same time after the token, so that it
//! reveals nothing about padding, user or password.

use super::iperf3_messages::Iperf3Error;
use super::server_protocol::TestFault;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use longhaul_probe::secure::{decode_hex, equal_in_constant_time};
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use rsa::pkcs1::DecodeRsaPrivateKey;
use rsa::pkcs8::DecodePrivateKey;
use rsa::rand_core::OsRng;
use rsa::traits::PublicKeyParts;
use rsa::{Oaep, Pkcs1v15Encrypt, RsaPrivateKey};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The default maximum clock difference between client and server, as in iperf3.
pub const DEFAULT_SKEW: Duration = Duration::from_secs(10);
/// The maximum number of remembered tokens; beyond it, no more are accepted.
const MAX_REMEMBERED_TOKENS: usize = 10_000;
/// The delay of a refusal after the token, longer than any decryption.
const REFUSAL_DELAY: Duration = Duration::from_millis(400);
/// The maximum size of a key file or users file.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// The permitted key size in bytes: 1024 to 8192 bits.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 128..=1024;

/// The error of loading a key or a list of users.
#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    #[error("cannot read {path}", path = path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} contains no private RSA key of 1024 to 8192 bits in PEM without a passphrase", path = path.display())]
    Key { path: PathBuf },
    #[error("{path}, line {line}: expected `user,` and 64 hexadecimal digits", path = path.display())]
    User { path: PathBuf, line: usize },
    #[error("{path} contains no user", path = path.display())]
    Empty { path: PathBuf },
}

/// The users of this server.
pub struct AuthorizedUsers {
    key: RsaPrivateKey,
    /// SHA-256 of `{user}password`.
    hashes: BTreeMap<String, [u8; 32]>,
    skew: Duration,
    /// Accepted tokens, and the time until which they are remembered (Unix seconds).
    used_tokens: Mutex<HashMap<[u8; 32], u64>>,
}

impl fmt::Debug for AuthorizedUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Users({})", self.hashes.len())
    }
}

impl AuthorizedUsers {
    /// Reads a private key in PEM (PKCS #1 or #8) and a users file in iperf3's format.
    pub fn load(key: &Path, users: &Path, skew: Duration) -> Result<AuthorizedUsers, UsersError> {
        let read = |path: &Path| {
            read_limited(path).map_err(|source| UsersError::Read { path: path.to_owned(), source })
        };
        let text = read(key)?;
        let parsed = RsaPrivateKey::from_pkcs8_pem(&text)
            .ok()
            .or_else(|| RsaPrivateKey::from_pkcs1_pem(&text).ok())
            .filter(|key| KEY_BYTES.contains(&key.size()));
        let path = key.to_owned();
        Ok(AuthorizedUsers {
            key: parsed.ok_or(UsersError::Key { path })?,
            hashes: parse_users(users, &read(users)?)?,
            skew,
            used_tokens: Mutex::default(),
        })
    }

    /// # Errors
    /// Always the same error after a fixed time; the text is for the log.
    pub fn check(&self, token: Option<&str>) -> Result<(), TestFault> {
        let came = Instant::now();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_secs());
        let why = match token.map(|token| self.verify_token(token, now)) {
            Some(Ok(())) => return Ok(()),
            Some(Err(why)) => why,
            None => "it sent no user and password",
        };
        std::thread::sleep(REFUSAL_DELAY.saturating_sub(came.elapsed()));
        Err((Iperf3Error::Authentication, why.to_owned()))
    }

    fn verify_token(&self, token: &str, now: u64) -> Result<(), &'static str> {
        let cipher = STANDARD.decode(token.trim_end());
        let cipher = cipher.map_err(|_| "its token is not base64")?;
        if cipher.len() != self.key.size() {
            return Err("its token is not encrypted for this key");
        }
        let plain = self.decrypt(&cipher).ok_or("its token cannot be decrypted")?;
        let text = String::from_utf8(plain).map_err(|_| "its token is not text")?;
        let (user, password, time) =
            parse_token(&text).ok_or("its token does not have three lines")?;
        let skew = self.skew.as_secs();
        let known = self.hashes.get(user);
        // An unknown user costs the same time as a wrong password.
        let right =
            equal_in_constant_time(known.unwrap_or(&[0; 32]), &hash_password(user, password))
                && known.is_some();
        if !right {
            return Err("wrong user or password");
        }
        if now.abs_diff(time) > skew {
            return Err("its token is too old, or the clocks differ");
        }
        self.record_token(&cipher, now, time.saturating_add(skew))
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let key = &self.key;
        // Always tries both, so that the time does not depend on which one fits.
        let new = key.decrypt_blinded(&mut OsRng, Oaep::new::<sha1::Sha1>(), cipher);
        let old = key.decrypt_blinded(&mut OsRng, Pkcs1v15Encrypt, cipher);
        new.or(old).ok()
    }

    fn record_token(&self, cipher: &[u8], now: u64, until: u64) -> Result<(), &'static str> {
        let name = sha256_digest(cipher);
        let mut taken = self.used_tokens.lock();
        taken.retain(|_, until| *until >= now);
        if taken.contains_key(&name) {
            return Err("its token was used before");
        }
        if taken.len() >= MAX_REMEMBERED_TOKENS {
            return Err("too many tokens in a short time");
        }
        taken.insert(name, until);
        Ok(())
    }
}

/// Reads a file of less than 1 MiB.
pub(crate) fn read_limited(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
    if text.len() as u64 == MAX_FILE_BYTES {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok(text)
}

fn parse_users(path: &Path, text: &str) -> Result<BTreeMap<String, [u8; 32]>, UsersError> {
    let mut hashes = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let found = line.split_once(',').and_then(|(user, hash)| {
            let hash = decode_hex(hash.trim())?.try_into().ok()?;
            Some((user.trim().to_owned(), hash))
        });
        let (user, hash) =
            found.ok_or_else(|| UsersError::User { path: path.to_owned(), line: index + 1 })?;
        hashes.insert(user, hash);
    }
    if hashes.is_empty() {
        let path = path.to_owned();
        return Err(UsersError::Empty { path });
    }
    Ok(hashes)
}

/// Returns user, password and Unix time of a token.
fn parse_token(text: &str) -> Option<(&str, &str, u64)> {
    let mut lines = text.trim_end_matches('\0').lines();
    let mut field = |name: &str| Some(lines.next()?.strip_prefix(name)?.trim());
    let (user, password, time) = (field("user:")?, field("pwd:")?, field("ts:")?);
    Some((user, password, time.parse().ok()?))
}

fn hash_password(user: &str, password: &str) -> [u8; 32] {
    sha256_digest(format!("{{{user}}}{password}").as_bytes())
}

fn sha256_digest(bytes: &[u8]) -> [u8; 32] {
    let mut sum = [0; 32];
    sum.copy_from_slice(digest(&SHA256, bytes).as_ref());
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsa::RsaPublicKey;
    use rsa::pkcs8::{EncodePrivateKey, LineEnding};

    const NOW: u64 = 1_800_000_000;

    fn users(name: &str) -> (AuthorizedUsers, RsaPublicKey) {
        let key = RsaPrivateKey::new(&mut OsRng, 1024).expect("a key");
        let folder =
            std::env::temp_dir().join(format!("longhaul-users-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (pem, list) = (folder.join("key.pem"), folder.join("users.csv"));
        let text = key.to_pkcs8_pem(LineEnding::LF).expect("PEM");
        std::fs::write(&pem, text.as_bytes()).expect("written");
        let sum = longhaul_probe::secure::encode_hex(&hash_password("mario", "rossi"));
        std::fs::write(&list, format!("# people\nmario,{sum}\n")).expect("written");
        let users = AuthorizedUsers::load(&pem, &list, DEFAULT_SKEW).expect("both are fine");
        std::fs::remove_dir_all(&folder).expect("removed");
        (users, key.to_public_key())
    }

    fn token(key: &RsaPublicKey, text: &str, old: bool) -> String {
        let bytes = text.as_bytes();
        let cipher = if old {
            key.encrypt(&mut OsRng, Pkcs1v15Encrypt, bytes)
        } else {
            key.encrypt(&mut OsRng, Oaep::new::<sha1::Sha1>(), bytes)
        };
        STANDARD.encode(cipher.expect("short"))
    }

    #[test]
    fn both_paddings_are_taken_each_token_once_and_no_other_user() {
        let (users, key) = users("paddings");
        let right = format!("user: mario\npwd:  rossi\nts:   {NOW}");
        for old in [false, true] {
            let token = token(&key, &right, old);
            assert_eq!(users.verify_token(&token, NOW + 5), Ok(()));
            let again = users.verify_token(&token, NOW + 6);
            assert_eq!(again, Err("its token was used before"));
        }
        for (text, why) in [
            (format!("user: mario\npwd:  bianchi\nts:   {NOW}"), "password"),
            (format!("user: luigi\npwd:  rossi\nts:   {NOW}"), "password"),
            (format!("user: mario\npwd:  rossi\nts:   {}", NOW - 11), "old"),
            (format!("user: mario\npwd:  rossi\nts:   {}", NOW + 11), "old"),
            ("user: mario\npwd:  rossi\nts:   now".to_owned(), "three lines"),
            ("mario".to_owned(), "three lines"),
        ] {
            let refused = users.verify_token(&token(&key, &text, false), NOW).expect_err(&text);
            assert!(refused.contains(why), "{refused}");
        }
        for garbage in ["", "!!", "aGVsbG8="] {
            assert!(users.verify_token(garbage, NOW).is_err());
        }
    }

    #[test]
    fn files_that_are_of_no_use_are_named() {
        let path = Path::new("users.csv");
        for text in ["mario", "mario,abc", "mario,zz"] {
            let error = parse_users(path, text).expect_err(text).to_string();
            assert!(error.contains("users.csv, line 1"), "{error}");
        }
        assert!(matches!(parse_users(path, "# none\n"), Err(UsersError::Empty { .. })));
    }
}
