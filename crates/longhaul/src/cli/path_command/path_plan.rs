//! Builds plan and target of `longhaul path` from its options. No I/O except for the token.

use crate::cli::args::PathArgs;
use crate::cli::option_resolution;
use crate::command_failure::{CommandFailure, USAGE};
use longhaul_model::report::v1::path::{
    HopLoadPlan, PathPlan, ProbeProtocol, RoundTripPlan, TracePlan,
};
use longhaul_probe::throughput::TargetHost;
use std::time::Duration;

/// The default number of round trips, and the default time between two.
const DEFAULT_COUNT: u32 = 10;
const DEFAULT_INTERVAL_US: u64 = 100_000;
/// The minimum time of a watch round, to keep the load on routers low.
pub const MIN_ROUND_US: u64 = 1_000_000;
/// The default number of load streams, enough to fill a path with default buffers.
const DEFAULT_LOAD_STREAMS: u32 = 4;
/// The timeout of the connection that checks for a longhaul server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);

pub fn parse_confidence(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if (0.5..=0.999).contains(&value) => Ok(value),
        _ => Err("must be 0.5 to 0.999".to_owned()),
    }
}

/// Builds the plan from the options.
pub fn plan_path(args: &PathArgs) -> Result<PathPlan, CommandFailure> {
    let protocol = choose_protocol(args);
    if args.to_port.is_some() && protocol == ProbeProtocol::Icmp {
        return Err(CommandFailure::new(USAGE, "--to-port needs --udp or --tcp")
            .hint(Some("use --port for the port of `longhaul serve`")));
    }
    if args.watch && args.interval.is_some_and(|us| us < MIN_ROUND_US) {
        return Err(CommandFailure::new(
            USAGE,
            "invalid value for '--interval <TIME>': must be at least 1 s with --watch",
        ));
    }
    let timeout_us = args.timeout.as_micros() as u64;
    Ok(PathPlan {
        protocol,
        port: args.to_port,
        round_trips: RoundTripPlan {
            protocol,
            probes: args.count.unwrap_or(DEFAULT_COUNT),
            interval_us: args.interval.unwrap_or(DEFAULT_INTERVAL_US),
            packet_bytes: args.size,
            timeout_us,
        },
        trace: (!args.no_route).then_some(TracePlan {
            most_hops: args.max_hops,
            probes: args.queries,
            timeout_us,
            confidence_ratio: args.alternatives,
        }),
        reverse: !args.no_reverse,
        mtu: !args.no_mtu,
        options: args.options,
        load: args.load.map(|phase_us| HopLoadPlan {
            phase_us,
            streams: args.streams.unwrap_or(DEFAULT_LOAD_STREAMS),
            forward: !args.reverse,
        }),
    })
}

fn choose_protocol(args: &PathArgs) -> ProbeProtocol {
    match (args.udp, args.tcp) {
        (true, _) => ProbeProtocol::Udp,
        (_, true) => ProbeProtocol::Tcp,
        _ => ProbeProtocol::Icmp,
    }
}

pub fn path_target(args: &PathArgs) -> Result<TargetHost, CommandFailure> {
    option_resolution::build_target(
        &args.host,
        args.port,
        &args.local,
        &args.token,
        CONNECT_TIMEOUT,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{CliArgs, CliCommand};
    use clap::Parser;

    fn asked(options: &[&str]) -> Result<PathPlan, CommandFailure> {
        let line = ["longhaul", "path", "far"].iter().chain(options);
        let CliCommand::Path(args) = CliArgs::parse_from(line).command else {
            panic!("another command");
        };
        plan_path(&args)
    }

    #[test]
    fn without_options_there_are_round_trips_a_route_the_far_view_and_the_mtu() {
        let plan = asked(&[]).expect("a plan");
        assert_eq!(plan.protocol, ProbeProtocol::Icmp);
        assert_eq!(plan.round_trips.probes, 10);
        assert!(plan.trace.is_some_and(|t| t.confidence_ratio.is_none()));
        assert!(plan.reverse && plan.mtu && !plan.options && plan.load.is_none());
    }

    #[test]
    fn options_with_optional_values_have_their_defaults() {
        let plan = asked(&["--alternatives", "--load", "-R", "--no-mtu"]).expect("a plan");
        assert_eq!(plan.trace.and_then(|trace| trace.confidence_ratio), Some(0.95));
        let load = plan.load.expect("a load");
        assert_eq!((load.phase_us, load.streams, load.forward), (8_000_000, 4, false));
        assert!(!plan.mtu);
        let plan = asked(&["--alternatives=0.99", "--load=4s", "-P", "8"]).expect("a plan");
        assert_eq!(plan.trace.and_then(|trace| trace.confidence_ratio), Some(0.99));
        assert_eq!(plan.load.map(|l| (l.phase_us, l.streams)), Some((4_000_000, 8)));
    }

    #[test]
    fn a_port_of_probes_needs_a_protocol_with_ports() {
        assert!(asked(&["--to-port", "80"]).is_err());
        let plan = asked(&["--to-port", "80", "--tcp"]).expect("a plan");
        assert_eq!((plan.protocol, plan.port), (ProbeProtocol::Tcp, Some(80)));
    }

    #[test]
    fn a_watch_is_not_faster_than_one_probe_a_second_and_hop() {
        assert!(asked(&["--watch", "-i", "500ms"]).is_err());
        assert!(asked(&["--watch", "-i", "2s"]).is_ok());
    }
}
