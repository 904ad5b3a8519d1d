//! Options of `longhaul watch`.

use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  longhaul watch                    does what the file in its usual place says
  longhaul watch --check            says what that will cost, and does nothing
  longhaul watch --check watch.toml --agent dtn2
                                    as the agent of host dtn2 reads it";

const DETAILS: &str = "\
The agent measures until it is stopped, looks for lasting changes and their
causes, tells of them, and shows it all on the page of its `listen`. It says one
line for each result and each event. Runs are processes of their own: one that
fails takes nothing with it.

SIGHUP reads the file again; a file that is wrong changes nothing. SIGTERM and
Ctrl-C start nothing more and wait a minute for what runs; the second one ends
at once. What was planned and not made is told with its reason.

With --check everything that is wrong is told at once, with line and key, what
is wrong and what would be right. A file that is right is summed up: whom it
measures, runs and bytes a day, the busiest host, interface or link, and the
longest round. Bytes are the most that runs may send at the declared rates
(1 Gbit/s where none is declared). Secrets are looked at for their permissions
only.

docs/watch-file.md explains the file; contrib/watch.toml is one to begin with.

Exit codes are those of `longhaul --help`; 2 when the file is wrong.";

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{DETAILS}"),
)]
pub struct WatchArgs {
    /// Check the file, and say what it will cost
    #[arg(long)]
    pub check: bool,
    /// The watch file [default: longhaul/watch.toml in the XDG configuration folder, else
    /// /etc/longhaul/watch.toml]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Name of this host in the file, where many hosts share it [default: the name that the file
    /// gives its agent]
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// As JSON; of the agent, one object for each line
    #[arg(short = 'J', long, help_heading = "Output")]
    pub json: bool,
}
