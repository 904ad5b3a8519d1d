//! The running agent: `longhaul watch`.
//!
//! - [`birth`]: how it begins; [`turns`]: its loop; [`reload`]: a new file; [`life`]: how it ends
//! - [`book`]: what the schedule notes, for archive and page; [`scribe`]: who writes it
//! - [`runs`]: runs as tasks; [`runner`]: runs as processes; [`command`]: from job to command
//! - [`landing`]: from report to archive; [`left`]: what an earlier agent left
//! - [`inquiry`]: events and causes; [`wishes`]: what they ask to be measured; [`notify`]: who is
//!   told
//! - [`forward`]: to whom results go on; [`fleet`]: the database that agents share
//! - [`folder`], [`now`], [`voice`], [`service`], [`retention`], [`spent`]: folder, clocks, lines,
//!   service manager, age, bytes of the day
//! - [`desk`]: what it shares with its page

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

/// The page and its API, until `stop` is true.
async fn serve_page(
    desk: Arc<Desk>,
    listener: TcpListener,
    stop: watch::Receiver<bool>,
) -> io::Result<()> {
    crate::api::serve(desk, listener, stop).await
}
