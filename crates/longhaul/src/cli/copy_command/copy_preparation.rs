//! Builds a copy request from SRC, DST, options and the setting that `tune_command` found for the path.

use super::copy_endpoint::CopyEndpoint;
use crate::cli::args::CopyArgs;
use crate::cli::tune_command::scan_history;
use crate::cli::{command_output, option_resolution};
use crate::command_failure::{CommandFailure, USAGE};
use longhaul_copy::{BLOCK_BYTES, CopyRequest, LocalLocation};
use longhaul_model::report::v1::copy::CopyPlan;
use longhaul_model::report::v1::scan::TransferSetting;
use longhaul_probe::throughput::TargetHost;

/// The number of streams without an option or a result of `tune_command`.
const DEFAULT_STREAMS: u32 = 4;

pub struct PreparedCopy {
    pub peer: TargetHost,
    pub request: CopyRequest,
    pub plan: CopyPlan,
    pub to_stdout: bool,
}

impl PreparedCopy {
    /// Returns true if an interrupted copy can be resumed.
    pub fn is_resumable(&self) -> bool {
        let dry = self.request.dry_disk || self.request.dry_network;
        !dry && self.request.local != LocalLocation::Stream
    }
}

pub fn prepare_copy(args: &CopyArgs) -> Result<PreparedCopy, CommandFailure> {
    let (forward, near, host, name) = split_endpoints(args)?;
    let peer = option_resolution::build_target(
        host,
        args.port,
        &args.local,
        &args.token,
        args.connect_timeout,
    )?;
    let tuned = load_tuned_setting(args, &peer, forward);
    let from = tuned.as_ref();
    let request = CopyRequest {
        forward,
        local: match near {
            CopyEndpoint::Local(path) => LocalLocation::Path(path.clone()),
            _ => LocalLocation::Stream,
        },
        remote_path: name.to_owned(),
        overwrite: args.overwrite,
        direct: args.direct,
        streams: args.streams.or(from.map(|it| it.streams)).unwrap_or(DEFAULT_STREAMS),
        window_bytes: args.window.or(from.and_then(|it| it.window_bytes)),
        congestion_control: args
            .congestion_control
            .clone()
            .or(from.and_then(|it| it.congestion_control.clone())),
        dry_disk: args.dry_disk,
        dry_network: args.dry_net,
    };
    let plan = plan_copy(args, &request, tuned.is_some());
    Ok(PreparedCopy { to_stdout: !forward && *near == CopyEndpoint::Stream, peer, request, plan })
}

/// Returns the direction, the local end, and the host and name of the remote end.
fn split_endpoints(args: &CopyArgs) -> Result<(bool, &CopyEndpoint, &str, &str), CommandFailure> {
    let usage =
        |text: &str, hint: &'static str| Err(CommandFailure::new(USAGE, text).hint(Some(hint)));
    let (forward, near, host, name) = match (&args.source, &args.target) {
        (CopyEndpoint::Remote { .. }, CopyEndpoint::Remote { .. }) => {
            return usage(
                "cannot copy between two remote hosts",
                "run `longhaul copy` on one of them",
            );
        }
        (near, CopyEndpoint::Remote { host, name }) => (true, near, host, name),
        (CopyEndpoint::Remote { host, name }, near) => (false, near, host, name),
        _ => {
            return usage(
                "cannot copy: neither end is on another host",
                "name the remote end as HOST:NAME, or use `cp`",
            );
        }
    };
    let dry = args.dry_disk || args.dry_net;
    if dry && *near == CopyEndpoint::Stream {
        return usage(
            "cannot make a dry run with standard input or output",
            "name a file instead of -",
        );
    }
    if args.output.form.json && !forward && *near == CopyEndpoint::Stream {
        return usage(
            "cannot write both the file and the report to standard output",
            "name a target file, or show the report with `longhaul report show last`",
        );
    }
    Ok((forward, near, host, name))
}

/// Returns the setting recommended by an earlier scan, unless options set the number of streams.
fn load_tuned_setting(
    args: &CopyArgs,
    peer: &TargetHost,
    forward: bool,
) -> Option<TransferSetting> {
    if args.streams.is_some() {
        return None;
    }
    let archive = command_output::archive_path(&args.output.archive).ok()?;
    scan_history::recommended_setting(&archive, peer, forward)
}

fn plan_copy(args: &CopyArgs, request: &CopyRequest, tuned: bool) -> CopyPlan {
    let typed = |end: &CopyEndpoint| match end {
        CopyEndpoint::Local(path) => path.display().to_string(),
        CopyEndpoint::Remote { name, .. } => name.clone(),
        CopyEndpoint::Stream => "-".to_owned(),
    };
    let from = match (tuned, args.streams) {
        (true, _) => "tune",
        (false, Some(_)) => "option",
        (false, None) => "default",
    };
    CopyPlan {
        source: typed(&args.source),
        target: typed(&args.target),
        forward: request.forward,
        streams: request.streams,
        window_bytes: request.window_bytes,
        congestion_control: request.congestion_control.clone(),
        setting_from: from.to_owned(),
        block_bytes: BLOCK_BYTES,
        direct: args.direct,
        overwrite: args.overwrite,
        dry: match (args.dry_disk, args.dry_net) {
            (true, _) => Some("disk".to_owned()),
            (_, true) => Some("network".to_owned()),
            _ => None,
        },
    }
}
