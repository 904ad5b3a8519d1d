//! Named tokens of an agent: for readers and operators of its page and API, and for agents that send
//! their results here. Its folder keeps only their SHA-256.
//!
//! The agent and `longhaul watch token` change the file under a lock, and the agent reads it for each
//! request, so that a change takes effect at once.

use crate::agent::{agent_folder_path, replace_private_file};
use crate::secret_file::hash_secret;
use longhaul_config::config_values;
use longhaul_probe::secure::AuthToken;
use longhaul_store::create_private_folder;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The maximum number of tokens.
const MAX_TOKENS: usize = 10_000;
const MAX_FILE_BYTES: u64 = 4 << 20;

/// The right of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenRight {
    /// To read page and API (GET).
    Read,
    /// Also to start runs and to acknowledge events.
    Operate,
    /// To send the results of the agent that has the name of the token.
    Agent,
}

/// A token as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredToken {
    pub name: String,
    pub right: TokenRight,
    /// The SHA-256 of the token, hexadecimal.
    sha256: String,
    pub created_us: i64,
    /// A revoked token is not valid, and no agent can enrol under its name.
    #[serde(default)]
    pub is_revoked: bool,
}

/// The reason why a token is not stored or changed.
#[derive(Debug, thiserror::Error)]
pub enum TokenStoreError {
    #[error("cannot use {}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("there is a token with the name {0}; revoke it first")]
    NameTaken(String),
    #[error("the token of the agent {0} was revoked")]
    Revoked(String),
    #[error("there is no token with the name {0}")]
    UnknownName(String),
    #[error("{0:?} is no name; write letters, digits, -, _ and .")]
    InvalidName(String),
    #[error("the kernel gives no random bytes for a token")]
    NoRandom,
    #[error("there are {MAX_TOKENS} tokens; remove some")]
    Full,
}

/// The file of the tokens of one agent.
#[derive(Debug, Clone)]
pub struct TokenStore {
    path: PathBuf,
    /// The tokens that were read last.
    cache: Arc<Mutex<CachedTokens>>,
}

/// The tokens of one file, which is replaced whenever they change.
#[derive(Debug, Default)]
struct CachedTokens {
    /// Inode, size, and the time of the last change in seconds and nanoseconds.
    file: Option<(u64, u64, i64, i64)>,
    tokens: Arc<[StoredToken]>,
}

impl TokenStore {
    /// Returns the store of the agent with this archive.
    pub fn of_archive(archive: &Path) -> TokenStore {
        let path = agent_folder_path(archive).join("tokens.json");
        TokenStore { path, cache: Arc::default() }
    }

    /// Returns the file of the token that this agent itself got from its collector.
    pub fn collector_token_path(&self) -> PathBuf {
        self.path.with_file_name("collector.token")
    }

    /// Returns all tokens, the revoked ones too.
    pub fn list(&self) -> Result<Arc<[StoredToken]>, TokenStoreError> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Arc::default()),
            Err(error) => return Err(self.fail(error)),
        };
        let is = file.metadata().map_err(|error| self.fail(error))?;
        let is = Some((is.ino(), is.size(), is.ctime(), is.ctime_nsec()));
        let mut cache = self.cache.lock();
        if cache.file != is {
            *cache = CachedTokens { file: is, tokens: self.read(&mut file)?.into() };
        }
        Ok(Arc::clone(&cache.tokens))
    }

    /// Returns the valid token with this secret.
    pub fn find(&self, secret: &[u8]) -> Result<Option<StoredToken>, TokenStoreError> {
        let sha256 = encode_digest(secret);
        // The digest of a secret with 128 random bits reveals nothing by the time of a comparison.
        let tokens = self.list()?;
        Ok(tokens.iter().find(|it| !it.is_revoked && it.sha256 == sha256).cloned())
    }

    /// Creates a token and returns it; only its digest is kept.
    pub fn create(&self, name: &str, right: TokenRight) -> Result<AuthToken, TokenStoreError> {
        let token = AuthToken::generate().ok_or(TokenStoreError::NoRandom)?;
        let sha256 = encode_digest(token.as_str().as_bytes());
        self.change(|tokens| {
            if tokens.iter().any(|it| it.name == name && !it.is_revoked) {
                return Err(TokenStoreError::NameTaken(name.to_owned()));
            }
            tokens.retain(|it| it.name != name);
            add_token(tokens, name, right, sha256)
        })?;
        Ok(token)
    }

    /// Stores the digest of the token that an agent made for itself. Repeating it changes nothing,
    /// because the answer to an agent may be lost.
    pub fn enrol(&self, agent: &str, sha256: &str) -> Result<(), TokenStoreError> {
        self.change(|tokens| match tokens.iter().find(|it| it.name == agent) {
            Some(known) if known.is_revoked => Err(TokenStoreError::Revoked(agent.to_owned())),
            Some(known) if known.sha256 == sha256 && known.right == TokenRight::Agent => Ok(()),
            Some(_) => Err(TokenStoreError::NameTaken(agent.to_owned())),
            None => add_token(tokens, agent, TokenRight::Agent, sha256.to_owned()),
        })
    }

    /// Makes a token invalid. The name stays blocked for enrolment unless `forget` is true.
    pub fn revoke(&self, name: &str, forget: bool) -> Result<(), TokenStoreError> {
        self.change(|tokens| {
            let known = tokens.iter_mut().find(|it| it.name == name);
            let known = known.ok_or_else(|| TokenStoreError::UnknownName(name.to_owned()))?;
            known.is_revoked = true;
            if forget {
                tokens.retain(|it| it.name != name);
            }
            Ok(())
        })
    }

    /// Changes the tokens under a lock.
    fn change(
        &self,
        change: impl FnOnce(&mut Vec<StoredToken>) -> Result<(), TokenStoreError>,
    ) -> Result<(), TokenStoreError> {
        let fail = |error| self.fail(error);
        let folder = self.path.parent().unwrap_or(Path::new(""));
        create_private_folder(folder).map_err(fail)?;
        // The file is replaced, so the lock is on its folder.
        let locked = File::open(folder).map_err(fail)?;
        locked.lock().map_err(fail)?;
        let before = self.list()?;
        let mut tokens = before.to_vec();
        change(&mut tokens)?;
        if *tokens == *before {
            return Ok(());
        }
        let text = serde_json::to_vec_pretty(&tokens).map_err(|error| fail(error.into()))?;
        replace_private_file(&self.path, &text).map_err(fail)
    }

    fn read(&self, file: &mut File) -> Result<Vec<StoredToken>, TokenStoreError> {
        let mut text = String::new();
        let mut read = || -> io::Result<Vec<StoredToken>> {
            file.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
            if text.is_empty() { Ok(Vec::new()) } else { Ok(serde_json::from_str(&text)?) }
        };
        read().map_err(|error| self.fail(error))
    }

    fn fail(&self, source: io::Error) -> TokenStoreError {
        TokenStoreError::File { path: self.path.clone(), source }
    }
}

fn add_token(
    tokens: &mut Vec<StoredToken>,
    name: &str,
    right: TokenRight,
    sha256: String,
) -> Result<(), TokenStoreError> {
    if !config_values::is_name(name) {
        return Err(TokenStoreError::InvalidName(name.to_owned()));
    }
    if tokens.len() >= MAX_TOKENS {
        return Err(TokenStoreError::Full);
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let created_us = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
    let name = name.to_owned();
    tokens.push(StoredToken { name, right, sha256, created_us, is_revoked: false });
    Ok(())
}

/// Returns the SHA-256 of a secret, hexadecimal.
pub fn encode_digest(secret: &[u8]) -> String {
    let nibbles = hash_secret(secret).into_iter().flat_map(|byte| [byte >> 4, byte & 0xF]);
    nibbles.filter_map(|nibble| char::from_digit(nibble.into(), 16)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_replaces_the_file_and_never_truncates_it() {
        let archive = std::env::temp_dir().join(format!("token_store_{}", std::process::id()));
        let store = TokenStore::of_archive(&archive);
        store.create("first", TokenRight::Read).expect("created");
        let mut before = File::open(&store.path).expect("a file");
        let token = store.create("second", TokenRight::Operate).expect("created");
        let names = |tokens: Vec<StoredToken>| -> Vec<String> {
            tokens.into_iter().map(|token| token.name).collect()
        };
        assert_eq!(names(store.read(&mut before).expect("read")), ["first"]);
        assert_eq!(names(store.list().expect("read").to_vec()), ["first", "second"]);
        assert!(store.find(token.as_str().as_bytes()).expect("read").is_some());
        std::fs::remove_dir_all(agent_folder_path(&archive)).expect("removed");
    }
}
