//! Client authentication: a token for the server's RSA key.
//!
//! A token has three lines (user, password, time), encrypted with OAEP as since 3.17, or with the
//! padding of earlier releases. A token is not bound to its connection; a new one is made for every
//! attempt, since our own servers accept each only once.

use crate::users::read_limited;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rsa::pkcs1::DecodeRsaPublicKey;
use rsa::pkcs8::DecodePublicKey;
use rsa::rand_core::OsRng;
use rsa::{Oaep, Pkcs1v15Encrypt, RsaPublicKey};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The padding of a token before encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TokenPadding {
    /// The padding of releases since 3.17.
    #[default]
    Oaep,
    /// PKCS #1 v1.5: the only padding of earlier releases.
    Pkcs1,
}

/// The error of making a token.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    #[error("cannot read the public key {path}", path = path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{path} contains no public RSA key in PEM", path = path.display())]
    Key { path: PathBuf },
    #[error("the user and the password are too long for this key")]
    TooLong,
}

/// A user name, a password and the server's key.
#[derive(Clone)]
pub struct LoginCredentials {
    key: RsaPublicKey,
    user: String,
    password: String,
    padding: TokenPadding,
}

impl fmt::Debug for LoginCredentials {
    /// Omits the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({:?}, {:?})", self.user, self.padding)
    }
}

impl LoginCredentials {
    /// Reads a public key in PEM (PKCS #1 or SubjectPublicKeyInfo).
    ///
    /// # Errors
    /// There is no such key, or the credentials do not fit into it.
    pub fn new(
        key: &Path,
        user: &str,
        password: &str,
        padding: TokenPadding,
    ) -> Result<LoginCredentials, LoginError> {
        let path = key.to_owned();
        let text =
            read_limited(key).map_err(|source| LoginError::Read { path: path.clone(), source })?;
        let parsed = RsaPublicKey::from_public_key_pem(&text)
            .ok()
            .or_else(|| RsaPublicKey::from_pkcs1_pem(&text).ok());
        let login = LoginCredentials {
            key: parsed.ok_or(LoginError::Key { path })?,
            user: user.to_owned(),
            password: password.to_owned(),
            padding,
        };
        login.make_token(SystemTime::now()).map(|_| login)
    }

    /// Returns a token with the current time.
    ///
    /// # Errors
    /// The credentials do not fit into the key.
    pub(super) fn make_token(&self, now: SystemTime) -> Result<String, LoginError> {
        let since = now.duration_since(SystemTime::UNIX_EPOCH);
        let seconds = since.map_or(0, |since| since.as_secs());
        let text = format!("user: {}\npwd:  {}\nts:   {seconds}", self.user, self.password);
        let cipher = match self.padding {
            TokenPadding::Oaep => {
                self.key.encrypt(&mut OsRng, Oaep::new::<sha1::Sha1>(), text.as_bytes())
            }
            TokenPadding::Pkcs1 => self.key.encrypt(&mut OsRng, Pkcs1v15Encrypt, text.as_bytes()),
        };
        let cipher = cipher.map_err(|_| LoginError::TooLong)?;
        Ok(STANDARD.encode(cipher))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsa::RsaPrivateKey;
    use rsa::pkcs8::{EncodePublicKey, LineEnding};

    #[test]
    fn a_token_says_user_password_and_time_to_whoever_has_the_private_key() {
        let private = RsaPrivateKey::new(&mut OsRng, 1024).expect("a key");
        let pem = private.to_public_key().to_public_key_pem(LineEnding::LF);
        let name = format!("longhaul-login-{}.pem", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, pem.expect("PEM")).expect("written");
        let now = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_800_000_000);
        for padding in [TokenPadding::Oaep, TokenPadding::Pkcs1] {
            let login = LoginCredentials::new(&path, "mario", "rossi", padding).expect("a login");
            assert!(!format!("{login:?}").contains("rossi"));
            let cipher = STANDARD.decode(login.make_token(now).expect("short"));
            let cipher = cipher.expect("base64");
            let plain = match padding {
                TokenPadding::Oaep => private.decrypt(Oaep::new::<sha1::Sha1>(), &cipher),
                TokenPadding::Pkcs1 => private.decrypt(Pkcs1v15Encrypt, &cipher),
            };
            let text = String::from_utf8(plain.expect("ours")).expect("text");
            assert_eq!(text, "user: mario\npwd:  rossi\nts:   1800000000");
        }
        let long = "x".repeat(200);
        let error =
            LoginCredentials::new(&path, "mario", &long, TokenPadding::Oaep).expect_err("too long");
        assert!(matches!(error, LoginError::TooLong));
        std::fs::write(&path, "no key").expect("written");
        let error = LoginCredentials::new(&path, "a", "b", TokenPadding::Oaep).expect_err("no key");
        assert!(error.to_string().contains("no public RSA key"));
        std::fs::remove_file(&path).expect("removed");
    }
}
