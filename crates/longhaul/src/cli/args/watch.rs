//! Options of `longhaul watch`.

use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  longhaul watch --check            the file in its usual place
  longhaul watch --check watch.toml --agent dtn2
                                    as the agent of host dtn2 reads it";

const DETAILS: &str = "\
Everything that is wrong is told at once, with line and key, what is wrong and
what would be right. A file that is right is summed up: whom it measures, runs
and bytes a day, the busiest host, interface or link, and the longest round.
Bytes are the most that runs may send at the declared rates (1 Gbit/s where
none is declared). Secrets are looked at for their permissions only.

docs/watch-file.md explains the file; contrib/watch.toml is one to begin with.

Exit codes are those of `longhaul --help`; 2 when the file is wrong.";

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{DETAILS}"),
)]
pub struct WatchArgs {
    /// Check the file, and say what it will cost
    #[arg(long, required = true)]
    pub check: bool,
    /// The watch file [default: longhaul/watch.toml in the XDG configuration folder, else
    /// /etc/longhaul/watch.toml]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Name of this host in the file, where many hosts share it [default: the name that the file
    /// gives its agent]
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// As JSON
    #[arg(short = 'J', long, help_heading = "Output")]
    pub json: bool,
}
