//! Authenticates the senders of batches: one token per agent, kept only as SHA-256.

use crate::agent::shared_state::SharedState;
use crate::api::api_error::ApiError;
use crate::secret_file::{self, SecretDigest, hash_secret};
use crate::watch::watch_file::{SenderConfig, WatchFile};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// The tokens of one watch file.
#[derive(Debug, Default)]
struct AgentTokens {
    by_digest: HashMap<SecretDigest, SenderConfig>,
    /// Agents with an unreadable token file.
    unreadable: Vec<String>,
}

pub struct SenderAuth {
    state: Arc<SharedState>,
    cache: Mutex<Option<(Arc<WatchFile>, Arc<AgentTokens>)>>,
}

impl SenderAuth {
    pub fn new(state: Arc<SharedState>) -> SenderAuth {
        SenderAuth { state, cache: Mutex::new(None) }
    }

    /// Returns the agent that sent these headers.
    pub fn authenticate(&self, headers: &HeaderMap) -> Result<SenderConfig, ApiError> {
        let tokens = self.current_tokens();
        if tokens.by_digest.is_empty() && tokens.unreadable.is_empty() {
            let text = "this agent is not a collector: it accepts no results of other agents";
            return Err(ApiError::new(StatusCode::FORBIDDEN, "no_collector", text)
                .hint("add the sending agents to [[api.agent]] of its watch file"));
        }
        let token = headers
            .get(AUTHORIZATION)
            .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let known =
            token.and_then(|token| tokens.by_digest.get(&hash_secret(token.trim().as_bytes())));
        match known {
            Some(known) => Ok(known.clone()),
            None if tokens.unreadable.is_empty() => {
                let text = "the batch has no token, or an unknown one";
                Err(ApiError::new(StatusCode::UNAUTHORIZED, "no_token", text).hint(
                    "set it in [[api.agent]] of the collector and in [collector] of the agent",
                ))
            }
            None => {
                let names = tokens.unreadable.join(", ");
                let text = format!("cannot read the token files of these agents: {names}");
                Err(ApiError::unavailable("token_unreadable", text)
                    .hint("correct the files that [[api.agent]] names, then reload the collector"))
            }
        }
    }

    /// Returns the tokens of the current watch file, and reads them again after a reload.
    fn current_tokens(&self) -> Arc<AgentTokens> {
        let file = self.state.file();
        let mut held = self.cache.lock();
        match held.as_ref() {
            Some((known, tokens)) if Arc::ptr_eq(known, &file) && tokens.unreadable.is_empty() => {
                Arc::clone(tokens)
            }
            _ => {
                let tokens = Arc::new(read_tokens(&file, &self.state.folder));
                *held = Some((file, Arc::clone(&tokens)));
                tokens
            }
        }
    }
}

fn read_tokens(file: &WatchFile, folder: &Path) -> AgentTokens {
    let mut tokens = AgentTokens::default();
    for sender in &file.api.senders {
        match secret_file::read_secret(&folder.join(&sender.token_file)) {
            Ok(token) => {
                tokens.by_digest.entry(hash_secret(token.as_bytes())).or_insert(sender.clone());
            }
            Err(_) => tokens.unreadable.push(sender.name.clone()),
        }
    }
    tokens
}
