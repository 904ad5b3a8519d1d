//! Looks at the path to a host and prints the observation as JSON: `look HOST [PROTOCOL] [PART…]`,
//! parts being `trips`, `route`, `mtu`, `options`, `reverse`, `load`, `load-reverse`.

use longhaul_model::report::v1::path::{
    HopLoadPlan, PathPlan, ProbeProtocol, RoundTripPlan, TracePlan,
};
use longhaul_probe::path;
use longhaul_probe::throughput::TargetHost;
use std::error::Error;
use std::sync::atomic::AtomicBool;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let host = arguments.first().ok_or("give a host")?;
    let has = |part: &str| arguments.iter().any(|argument| argument == part);
    let protocol = match (has("udp"), has("tcp")) {
        (true, _) => ProbeProtocol::Udp,
        (_, true) => ProbeProtocol::Tcp,
        _ => ProbeProtocol::Icmp,
    };
    let load = has("load") || has("load-reverse");
    let plan = PathPlan {
        protocol,
        port: None,
        round_trips: RoundTripPlan {
            protocol,
            probes: if has("trips") || has("reverse") { 10 } else { 0 },
            interval_us: 200_000,
            packet_bytes: 84,
            timeout_us: 1_000_000,
        },
        trace: (has("route") || has("reverse") || load).then_some(TracePlan {
            most_hops: 30,
            probes: 3,
            timeout_us: 1_000_000,
            confidence_ratio: None,
        }),
        reverse: has("reverse"),
        mtu: has("mtu"),
        options: has("options"),
        load: load.then(|| HopLoadPlan { phase_us: 8_000_000, streams: 4, forward: has("load") }),
    };
    let mut part = None;
    let mut tell = |progress: &path::PathProgress<'_>| {
        if part.replace(progress.part) != Some(progress.part) {
            eprintln!("{:?} at {:?}", progress.part, progress.elapsed);
        }
    };
    let stop = AtomicBool::new(false);
    let outcome = path::run(&TargetHost::new(host.as_str()), &plan, &stop, &mut tell)?;
    eprintln!("{} took {:?}", outcome.responder.host, outcome.duration);
    println!("{}", serde_json::to_string(&outcome.observation)?);
    Ok(())
}
