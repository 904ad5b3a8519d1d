//! `longhaul watch token`: the named tokens of an agent.

use super::find_default_file;
use crate::cli::args::ArchiveArgs;
use crate::cli::command_output;
use crate::command_failure::{CommandFailure, HOST, USAGE};
use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use longhaul_agent::token_store::{StoredToken, TokenRight, TokenStore, TokenStoreError};
use longhaul_agent::watch_file_reading::{read_watch_file, watch_folder};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct TokenCommandArgs {
    #[command(subcommand)]
    pub command: TokenCommand,
}

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Create a token and print it; the agent keeps only its SHA-256
    Create {
        /// Name of the user, or of the agent that sends results
        #[arg(value_name = "NAME")]
        name: String,
        /// Right of the token: read (GET only), operate (also start runs and acknowledge events),
        /// or agent (send results)
        #[arg(long, value_name = "RIGHT", default_value = "read")]
        right: TokenRightName,
        #[command(flatten)]
        agent: TokenAgentArgs,
    },
    /// List the tokens with their rights
    List {
        /// Print JSON
        #[arg(short = 'J', long, help_heading = "Output")]
        json: bool,
        #[command(flatten)]
        agent: TokenAgentArgs,
    },
    /// Revoke a token; an agent of this name cannot enrol again
    Revoke {
        /// Name of the token
        #[arg(value_name = "NAME")]
        name: String,
        /// Remove the entry, so that an agent of this name can enrol again
        #[arg(long)]
        forget: bool,
        #[command(flatten)]
        agent: TokenAgentArgs,
    },
}

/// The agent that has the tokens.
#[derive(Debug, Args)]
pub struct TokenAgentArgs {
    /// Watch file of the agent [default: that of `longhaul watch`]
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Name of this host in a file that several hosts share
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TokenRightName {
    Read,
    Operate,
    Agent,
}

pub fn run(args: &TokenCommandArgs) -> Result<ExitCode, CommandFailure> {
    match &args.command {
        TokenCommand::Create { name, right, agent } => {
            let right = match right {
                TokenRightName::Read => TokenRight::Read,
                TokenRightName::Operate => TokenRight::Operate,
                TokenRightName::Agent => TokenRight::Agent,
            };
            let token =
                find_store(agent)?.create(name, right).map_err(|error| store_failure(&error))?;
            command_output::print_text(&format!("{}\n", token.as_str()))?;
        }
        TokenCommand::List { json, agent } => {
            let tokens = find_store(agent)?.list().map_err(|error| store_failure(&error))?;
            if *json {
                command_output::print_json(&json!(*tokens))?;
            } else {
                let lines: Vec<String> = tokens.iter().map(format_token).collect();
                command_output::print_text(&lines.concat())?;
            }
        }
        TokenCommand::Revoke { name, forget, agent } => {
            find_store(agent)?.revoke(name, *forget).map_err(|error| store_failure(&error))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the tokens of the agent with this watch file.
fn find_store(args: &TokenAgentArgs) -> Result<TokenStore, CommandFailure> {
    let path = args.file.clone().map_or_else(find_default_file, Ok)?;
    let file = read_watch_file(&path, args.agent.as_deref())?;
    let file = file.map_err(|problems| super::watch_file_failure(&problems))?;
    let archive = file.agent.archive.as_ref().map(|archive| watch_folder(&path).join(archive));
    Ok(TokenStore::of_archive(&command_output::archive_path(&ArchiveArgs { archive })?))
}

fn format_token(token: &StoredToken) -> String {
    let StoredToken { name, right, created_us, is_revoked, .. } = token;
    let created = Timestamp::from_microsecond(*created_us).unwrap_or(Timestamp::UNIX_EPOCH);
    let state = if *is_revoked { "  revoked" } else { "" };
    let right = json!(right);
    let right = right.as_str().unwrap_or_default();
    format!("{name:<24}  {right:<8}  created {}{state}\n", created.strftime("%Y-%m-%d"))
}

fn store_failure(error: &TokenStoreError) -> CommandFailure {
    let code = if matches!(error, TokenStoreError::File { .. }) { HOST } else { USAGE };
    let hint = match error {
        TokenStoreError::NameTaken(_) => Some("longhaul watch token revoke NAME"),
        TokenStoreError::UnknownName(_) => Some("`longhaul watch token list` shows the names"),
        TokenStoreError::File { .. } => Some("run the command as the agent's user or as root"),
        _ => None,
    };
    CommandFailure::from_error(code, error).hint(hint)
}
