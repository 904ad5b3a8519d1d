//! Options of `longhaul lab`.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  longhaul lab list
  longhaul lab show la-geneva
  longhaul lab run la-geneva -- longhaul test far
  longhaul lab run la-geneva --set hops.3.forward.loss=0.001 -- longhaul test far
  longhaul lab run slac-daresbury -- ping -c 5 far
  longhaul lab run slac-cesnet --begin-at 61s -- longhaul test far
  longhaul lab run slac-cesnet --publish 5280 -- longhaul watch watch.toml

In the lab, the hosts are called near and far; far also has the name of the
path, as in `longhaul test slac-cesnet`. The command runs on near, and
`longhaul serve` runs on far. LONGHAUL_LAB_TRUTH names the file for the ground
truth.";

#[derive(Debug, Args)]
pub struct LabArgs {
    #[command(subcommand)]
    pub command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// List the shipped and the running paths
    List {
        /// Print JSON
        #[arg(short = 'J', long)]
        json: bool,
    },
    /// Show a path: hops, delays, rates and the limits of the lab
    Show {
        #[command(flatten)]
        path: LabPathArgs,
        /// Print JSON
        #[arg(short = 'J', long)]
        json: bool,
    },
    /// Set up a path, run a command on its near host, and remove the path
    Run(LabRunArgs),
    /// Set up a path that stays until `lab down`
    Up(LabUpArgs),
    /// Run a command in a running path
    Exec(LabExecArgs),
    /// Remove a running path
    Down {
        /// Name of the running path, as shown by `lab list`
        #[arg(value_name = "NAME")]
        name: String,
        /// Write the ground truth to this file, as JSON
        #[arg(long, value_name = "FILE", env = "LONGHAUL_LAB_TRUTH", hide_env_values = true)]
        truth: Option<PathBuf>,
    },
}

/// Which path, with which changes.
#[derive(Debug, Args)]
pub struct LabPathArgs {
    /// Name of a shipped path, or a TOML file
    #[arg(value_name = "PATH")]
    pub path: String,
    /// Change a value of the path, such as hops.3.forward.loss=0.001; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
    /// Start at this time of the path, after its earlier events
    #[arg(long, value_name = "TIME")]
    pub begin_at: Option<String>,
}

impl LabPathArgs {
    /// Returns the changes to the path, in order.
    pub fn edits(&self) -> Vec<String> {
        let begin = self.begin_at.iter().map(|at| format!("begin_at={at}"));
        self.sets.iter().cloned().chain(begin).collect()
    }
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LabRunArgs {
    #[command(flatten)]
    pub path: LabPathArgs,
    #[command(flatten)]
    pub laying: LabSetupArgs,
    /// Write the ground truth to this file, as JSON
    #[arg(long, value_name = "FILE", env = "LONGHAUL_LAB_TRUTH", hide_env_values = true)]
    pub truth: Option<PathBuf>,
    /// Make this TCP port of the near host reachable on 127.0.0.1; may be repeated
    #[arg(long, value_name = "PORT")]
    pub publish: Vec<u16>,
    /// Command and arguments to run on the near host
    #[arg(value_name = "CMD", required = true, last = true, num_args = 1..)]
    pub command: Vec<String>,
}

/// How to lay a path.
#[derive(Debug, Args)]
pub struct LabSetupArgs {
    /// Packet interface of the lab: tun (with segmentation offload) or packet (AF_PACKET)
    #[arg(long, value_name = "WAY", value_enum, env = "LONGHAUL_LAB_BACKEND", hide_env = true)]
    pub backend: Option<LabBackendArg>,
    /// Keep the spacing of packets as exact as possible, for dispersion measurements
    #[arg(long)]
    pub dispersion: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LabBackendArg {
    Tun,
    Packet,
}

#[derive(Debug, Args)]
pub struct LabUpArgs {
    #[command(flatten)]
    pub path: LabPathArgs,
    #[command(flatten)]
    pub laying: LabSetupArgs,
}

#[derive(Debug, Args)]
pub struct LabExecArgs {
    /// Name of the running path
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Run on the far host instead of the near host
    #[arg(long)]
    pub far: bool,
    /// Command and arguments
    #[arg(value_name = "CMD", required = true, last = true, num_args = 1..)]
    pub command: Vec<String>,
}
