//! Authenticates the senders of batches: one token per agent, kept only as SHA-256.

use crate::agent::desk::Desk;
use crate::api::fault::Fault;
use crate::watch::file::WatchFile;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

const TOKEN_BYTES: u64 = 4096;

type Digest = [u8; SHA256_OUTPUT_LEN];

/// An authenticated agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub name: String,
    /// True if the agent may send results of others.
    pub relay: bool,
}

/// The tokens of one watch file.
#[derive(Debug, Default)]
struct Tokens {
    known: HashMap<Digest, Known>,
    /// Agents with an unreadable token file.
    unreadable: Vec<String>,
}

pub struct Senders {
    desk: Arc<Desk>,
    held: Mutex<Option<(Arc<WatchFile>, Arc<Tokens>)>>,
}

impl Senders {
    pub fn new(desk: Arc<Desk>) -> Senders {
        Senders {
            desk,
            held: Mutex::new(None),
        }
    }

    /// Returns the agent that sent these headers.
    pub fn known(&self, headers: &HeaderMap) -> Result<Known, Fault> {
        let tokens = self.tokens();
        if tokens.known.is_empty() && tokens.unreadable.is_empty() {
            let text = "this agent takes no results of others";
            return Err(Fault::new(StatusCode::FORBIDDEN, "no_collector", text)
                .hint("name those that may send in [[api.agent]] of its file"));
        }
        let token = headers
            .get(AUTHORIZATION)
            .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let known = token.and_then(|token| tokens.known.get(&hashed(token.trim())));
        match known {
            Some(known) => Ok(known.clone()),
            None if tokens.unreadable.is_empty() => {
                let text = "the batch carries no token, or one that is not known here";
                Err(Fault::new(StatusCode::UNAUTHORIZED, "no_token", text)
                    .hint("[[api.agent]] of the collector and [collector] of the agent name it"))
            }
            None => {
                let names = tokens.unreadable.join(", ");
                let text = format!("the token files of these agents cannot be read: {names}");
                Err(Fault::busy("token_unreadable", text)
                    .hint("mend the files that [[api.agent]] names, then reload the collector"))
            }
        }
    }

    /// Returns the tokens of the current watch file, and reads them again after a reload.
    fn tokens(&self) -> Arc<Tokens> {
        let file = self.desk.file();
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        match held.as_ref() {
            Some((known, tokens)) if Arc::ptr_eq(known, &file) && tokens.unreadable.is_empty() => {
                Arc::clone(tokens)
            }
            _ => {
                let tokens = Arc::new(read_all(&file, &self.desk.folder));
                *held = Some((file, Arc::clone(&tokens)));
                tokens
            }
        }
    }
}

fn hashed(token: &str) -> Digest {
    let mut bytes = [0; SHA256_OUTPUT_LEN];
    bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    bytes
}

fn read_all(file: &WatchFile, folder: &Path) -> Tokens {
    let mut tokens = Tokens::default();
    for sender in &file.api.senders {
        let known = Known {
            name: sender.name.clone(),
            relay: sender.relay,
        };
        match first_line(&folder.join(&sender.token_file)) {
            Some(token) => {
                tokens.known.entry(hashed(&token)).or_insert(known);
            }
            None => tokens.unreadable.push(known.name),
        }
    }
    tokens
}

/// Returns the token, or `None` if the file does not exist or is empty.
fn first_line(file: &Path) -> Option<String> {
    let mut text = String::new();
    let opened = File::open(file).ok()?;
    opened.take(TOKEN_BYTES).read_to_string(&mut text).ok()?;
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}
