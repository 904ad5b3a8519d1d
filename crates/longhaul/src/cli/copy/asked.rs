//! Builds a copy request from SRC, DST, options and the setting that `tune` found for the path.

use super::end::CopyEnd;
use crate::cli::args::CopyArgs;
use crate::cli::tune::history;
use crate::cli::{output, resolve};
use crate::fail::{Fail, USAGE};
use longhaul_model::report::v1::copy::Plan;
use longhaul_model::report::v1::scan::Setting;
use longhaul_probe::throughput::Target;
use longhaul_probe::transfer::{BLOCK_BYTES, CopyRequest, Near};

/// The number of streams without an option or a result of `tune`.
const USUAL_STREAMS: u32 = 4;

pub struct Asked {
    pub peer: Target,
    pub request: CopyRequest,
    pub plan: Plan,
    pub to_stdout: bool,
}

impl Asked {
    /// Returns true if an interrupted copy can be resumed.
    pub fn resumable(&self) -> bool {
        let dry = self.request.dry_disk || self.request.dry_network;
        !dry && self.request.near != Near::Stream
    }
}

pub fn asked(args: &CopyArgs) -> Result<Asked, Fail> {
    let (forward, near, host, name) = ends(args)?;
    let peer = resolve::target(
        (host, args.port),
        &args.local,
        &args.token,
        args.connect_timeout,
    )?;
    let tuned = tuned(args, &peer, forward);
    let from = tuned.as_ref();
    let request = CopyRequest {
        forward,
        near: match near {
            CopyEnd::Here(path) => Near::Path(path.clone()),
            _ => Near::Stream,
        },
        far: name.to_owned(),
        overwrite: args.overwrite,
        direct: args.direct,
        streams: args
            .streams
            .or(from.map(|it| it.streams))
            .unwrap_or(USUAL_STREAMS),
        window_bytes: args.window.or(from.and_then(|it| it.window_bytes)),
        congestion_control: args
            .congestion_control
            .clone()
            .or(from.and_then(|it| it.congestion_control.clone())),
        dry_disk: args.dry_disk,
        dry_network: args.dry_net,
    };
    let plan = plan(args, &request, tuned.is_some());
    Ok(Asked {
        to_stdout: !forward && *near == CopyEnd::Stream,
        peer,
        request,
        plan,
    })
}

/// Returns the direction, the local end, and the host and name of the remote end.
fn ends(args: &CopyArgs) -> Result<(bool, &CopyEnd, &str, &str), Fail> {
    let usage = |text: &str, hint: &'static str| Err(Fail::new(USAGE, text).hint(Some(hint)));
    let (forward, near, host, name) = match (&args.source, &args.target) {
        (CopyEnd::There { .. }, CopyEnd::There { .. }) => {
            return usage(
                "both ends are on other hosts",
                "run `longhaul copy` on one of the two",
            );
        }
        (near, CopyEnd::There { host, name }) => (true, near, host, name),
        (CopyEnd::There { host, name }, near) => (false, near, host, name),
        _ => {
            return usage(
                "neither end is on another host",
                "name the far end as HOST:NAME, or copy with `cp`",
            );
        }
    };
    let dry = args.dry_disk || args.dry_net;
    if dry && *near == CopyEnd::Stream {
        return usage(
            "a dry run needs a file or folder at both ends",
            "name a file in the place of -",
        );
    }
    if args.output.json && !forward && *near == CopyEnd::Stream {
        return usage(
            "standard output cannot hold both the file and the report",
            "write the file to a name, or read the report with `longhaul report show last`",
        );
    }
    Ok((forward, near, host, name))
}

/// Returns the setting recommended by an earlier scan, unless options set the number of streams.
fn tuned(args: &CopyArgs, peer: &Target, forward: bool) -> Option<Setting> {
    if args.streams.is_some() {
        return None;
    }
    let archive = output::archive_path(&args.output.archive).ok()?;
    history::recommended(&archive, peer, forward)
}

fn plan(args: &CopyArgs, request: &CopyRequest, tuned: bool) -> Plan {
    let typed = |end: &CopyEnd| match end {
        CopyEnd::Here(path) => path.display().to_string(),
        CopyEnd::There { name, .. } => name.clone(),
        CopyEnd::Stream => "-".to_owned(),
    };
    let from = match (tuned, args.streams) {
        (true, _) => "tune",
        (false, Some(_)) => "option",
        (false, None) => "default",
    };
    Plan {
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
