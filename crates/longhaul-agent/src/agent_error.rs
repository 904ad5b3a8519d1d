//! The reasons for which an agent cannot start.

use longhaul_store::StoreError;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A failure to start an agent.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("cannot use the agent's folder {}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("cannot open the archive {}: another agent uses it", .0.display())]
    ArchiveInUse(PathBuf),
    #[error("cannot listen on {address} for page and API")]
    Listen { address: SocketAddr, source: io::Error },
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A failure of the host: threads, signals, files.
    #[error(transparent)]
    Host(io::Error),
}

impl AgentError {
    /// Returns what the user can do.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            AgentError::Folder { .. } => {
                "make the folder of the archive writable for the agent's user"
            }
            AgentError::ArchiveInUse(_) => {
                "stop the other agent, or set another `archive` in [agent]: each agent needs an \
                 archive of its own"
            }
            AgentError::Listen { source, .. } => match source.kind() {
                io::ErrorKind::AddrInUse => {
                    "choose another `listen` in [agent]: another program uses this port"
                }
                io::ErrorKind::AddrNotAvailable => {
                    "change `listen` in [agent]: this host does not have the address"
                }
                _ => "change `listen` in [agent]",
            },
            AgentError::Store(error) => return error.hint(),
            AgentError::Host(_) => return None,
        };
        Some(hint.to_owned())
    }
}
