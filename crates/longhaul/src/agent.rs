//! The agent behind `longhaul watch`.
//!
//! - [`birth`]: startup; [`turns`]: event loop; [`reload`]: a changed watch file; [`life`]:
//!   lifecycle
//! - [`book`]: planned runs that have not ended; [`scribe`]: the archive writer thread
//! - [`runs`]: runs as tasks; [`runner`]: runs as processes; [`command`]: command line of a run
//! - [`landing`]: reads the report of a run; [`left`]: recovers runs of an earlier process
//! - [`inquiry`]: detection and diagnosis; [`wishes`]: follow-up measurements; [`notify`]:
//!   notifications
//! - [`forward`]: sends results to a collector or database; [`fleet`]: the shared database
//! - [`folder`]: files of the agent; [`spent`]: used budgets; [`retention`]: deletes expired data
//! - [`now`]: clocks; [`voice`]: log; [`service`]: systemd notifications
//! - [`desk`]: state shared by agent and API

mod birth;
mod book;
mod command;
pub mod desk;
pub mod fleet;
mod folder;
pub mod forward;
mod inquiry;
mod landing;
mod left;
mod life;
mod notify;
mod now;
mod reload;
mod retention;
mod runner;
mod runs;
mod scribe;
mod service;
mod spent;
mod turns;
mod voice;
mod wishes;

pub use inquiry::case_text_of;
pub use life::run;

use desk::Desk;
use std::io;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Serves the page and its API until `stop` is true.
async fn serve_page(
    desk: Arc<Desk>,
    listener: TcpListener,
    stop: watch::Receiver<bool>,
) -> io::Result<()> {
    crate::api::serve(desk, listener, stop).await
}
