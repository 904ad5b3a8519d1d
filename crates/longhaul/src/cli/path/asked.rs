//! Builds plan and target of `longhaul path` from its options. No I/O except for the token.

use crate::cli::args::PathArgs;
use crate::cli::{parse, resolve};
use crate::fail::{Fail, USAGE};
use longhaul_model::report::v1::path::{HopLoad, Plan, Protocol, RoundTrips, Trace};
use longhaul_probe::throughput::Target;
use std::time::Duration;

/// The default number of round trips, and the default time between two.
const COUNT: u32 = 10;
const INTERVAL_US: u64 = 100_000;
/// The minimum time of a watch round, to keep the load on routers low.
pub const ROUND_US: u64 = 1_000_000;
/// The default number of load streams, enough to fill a path with default buffers.
const STREAMS: u32 = 4;
/// The timeout of the connection that checks for a longhaul server.
const CONNECT: Duration = Duration::from_secs(4);

pub fn count(text: &str) -> Result<u32, String> {
    number(text, 1, 100_000)
}

pub fn queries(text: &str) -> Result<u32, String> {
    number(text, 1, 20)
}

pub fn hops(text: &str) -> Result<u8, String> {
    number(text, 1, 255).map(|n| n as u8)
}

/// Parses a packet size: the minimum holds headers and our marker, the maximum is IP's.
pub fn packet_bytes(text: &str) -> Result<u32, String> {
    number(text, 64, 65_535)
}

fn number(text: &str, least: u32, most: u32) -> Result<u32, String> {
    match text.parse() {
        Ok(n) if (least..=most).contains(&n) => Ok(n),
        _ => Err(format!("allowed are {least} to {most}")),
    }
}

pub fn confidence(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if (0.5..=0.999).contains(&value) => Ok(value),
        _ => Err("allowed are 0.5 to 0.999".to_owned()),
    }
}

pub fn interval(text: &str) -> Result<u64, String> {
    parse::micros(text, 10_000, 60_000_000)
}

pub fn timeout(text: &str) -> Result<Duration, String> {
    parse::micros(text, 10_000, 30_000_000).map(Duration::from_micros)
}

pub fn phase(text: &str) -> Result<u64, String> {
    parse::micros(text, 3_000_000, 300_000_000)
}

/// Builds the plan from the options.
pub fn plan(args: &PathArgs) -> Result<Plan, Fail> {
    let protocol = protocol(args);
    if args.to_port.is_some() && protocol == Protocol::Icmp {
        return Err(Fail::new(USAGE, "--to-port goes with --udp or --tcp")
            .hint(Some("the port of `longhaul serve` is --port")));
    }
    if args.watch && args.interval.is_some_and(|us| us < ROUND_US) {
        return Err(Fail::new(
            USAGE,
            "invalid value for '--interval <TIME>': a watch probes each hop once a second at most",
        ));
    }
    let timeout_us = args.timeout.as_micros() as u64;
    Ok(Plan {
        protocol,
        port: args.to_port,
        round_trips: RoundTrips {
            protocol,
            probes: args.count.unwrap_or(COUNT),
            interval_us: args.interval.unwrap_or(INTERVAL_US),
            packet_bytes: args.size,
            timeout_us,
        },
        trace: (!args.no_route).then_some(Trace {
            most_hops: args.max_hops,
            probes: args.queries,
            timeout_us,
            confidence_ratio: args.alternatives,
        }),
        reverse: !args.no_reverse,
        mtu: !args.no_mtu,
        options: args.options,
        load: args.load.map(|phase_us| HopLoad {
            phase_us,
            streams: args.streams.unwrap_or(STREAMS),
            forward: !args.reverse,
        }),
    })
}

fn protocol(args: &PathArgs) -> Protocol {
    match (args.udp, args.tcp) {
        (true, _) => Protocol::Udp,
        (_, true) => Protocol::Tcp,
        _ => Protocol::Icmp,
    }
}

pub fn target(args: &PathArgs) -> Result<Target, Fail> {
    resolve::target((&args.host, args.port), &args.local, &args.token, CONNECT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{Cli, Command};
    use clap::Parser;

    fn asked(options: &[&str]) -> Result<Plan, Fail> {
        let line = ["longhaul", "path", "far"].iter().chain(options);
        let Command::Path(args) = Cli::parse_from(line).command else {
            panic!("another command");
        };
        plan(&args)
    }

    #[test]
    fn without_options_there_are_round_trips_a_route_the_far_view_and_the_mtu() {
        let plan = asked(&[]).expect("a plan");
        assert_eq!(plan.protocol, Protocol::Icmp);
        assert_eq!(plan.round_trips.probes, 10);
        assert!(plan.trace.is_some_and(|t| t.confidence_ratio.is_none()));
        assert!(plan.reverse && plan.mtu && !plan.options && plan.load.is_none());
    }

    #[test]
    fn options_with_optional_values_have_their_defaults() {
        let plan = asked(&["--alternatives", "--load", "-R", "--no-mtu"]).expect("a plan");
        assert_eq!(
            plan.trace.and_then(|trace| trace.confidence_ratio),
            Some(0.95)
        );
        let load = plan.load.expect("a load");
        assert_eq!(
            (load.phase_us, load.streams, load.forward),
            (8_000_000, 4, false)
        );
        assert!(!plan.mtu);
        let plan = asked(&["--alternatives=0.99", "--load=4s", "-P", "8"]).expect("a plan");
        assert_eq!(
            plan.trace.and_then(|trace| trace.confidence_ratio),
            Some(0.99)
        );
        assert_eq!(
            plan.load.map(|l| (l.phase_us, l.streams)),
            Some((4_000_000, 8))
        );
    }

    #[test]
    fn a_port_of_probes_needs_a_protocol_with_ports() {
        assert!(asked(&["--to-port", "80"]).is_err());
        let plan = asked(&["--to-port", "80", "--tcp"]).expect("a plan");
        assert_eq!((plan.protocol, plan.port), (Protocol::Tcp, Some(80)));
    }

    #[test]
    fn a_watch_is_not_faster_than_one_probe_a_second_and_hop() {
        assert!(asked(&["--watch", "-i", "500ms"]).is_err());
        assert!(asked(&["--watch", "-i", "2s"]).is_ok());
    }

    #[test]
    fn values_out_of_range_name_the_range() {
        assert_eq!(hops("0"), Err("allowed are 1 to 255".to_owned()));
        assert_eq!(queries("99"), Err("allowed are 1 to 20".to_owned()));
        assert_eq!(confidence("1"), Err("allowed are 0.5 to 0.999".to_owned()));
        assert!(interval("1ms").is_err() && phase("1s").is_err());
        assert_eq!(packet_bytes("64"), Ok(64));
    }
}
