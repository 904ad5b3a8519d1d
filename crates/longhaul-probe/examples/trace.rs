//! Traces a route and prints it:
//! `cargo run -p longhaul-probe --example trace -- ADDRESS [icmp|udp|tcp] [CONFIDENCE]`.

use longhaul_model::report::v1::path::{ObservedHop, ObservedRoute, ProbeProtocol, TracePlan};
use longhaul_probe::path::route_trace::{TraceRequest, trace_route};
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn asked() -> Option<TraceRequest> {
    let mut words = std::env::args().skip(1);
    let destination: IpAddr = words.next()?.parse().ok()?;
    let protocol = match words.next().as_deref() {
        Some("udp") => ProbeProtocol::Udp,
        Some("tcp") => ProbeProtocol::Tcp,
        _ => ProbeProtocol::Icmp,
    };
    Some(TraceRequest {
        destination,
        source: None,
        device: None,
        protocol,
        port: None,
        trace: TracePlan {
            most_hops: 64,
            probes: 3,
            timeout_us: 2_000_000,
            confidence_ratio: words.next().and_then(|ratio| ratio.parse().ok()),
        },
        max_time: Duration::from_secs(60),
    })
}

fn print_hop(hop: &ObservedHop) {
    print!("{:>3}", hop.ttl);
    if hop.answers.is_empty() {
        print!("  *");
    }
    for answer in &hop.answers {
        print!("  {}", answer.address);
        for rtt in &answer.rtts_ns {
            print!(" {:.3}", *rtt as f64 / 1e6);
        }
        if answer.kind != "time_exceeded" {
            print!(" {}", answer.kind);
        }
        for label in &answer.mpls {
            print!(" L{}", label.label);
        }
        if !answer.rewritten.is_empty() {
            print!(" {:?}", answer.rewritten);
        }
    }
    println!("{}", if hop.rate_limited { "  (rate limited)" } else { "" });
}

fn print(route: &ObservedRoute) {
    println!("{} to {} by {}", route.from, route.to, route.flow);
    for hop in &route.hops {
        print_hop(hop);
    }
    println!(
        "{} after {} ms; {} probes, {} answers discarded",
        route.ended_by,
        route.duration_us / 1000,
        route.probes_sent,
        route.discarded
    );
    if let Some(ratio) = route.confidence_ratio {
        println!("alternatives found with a confidence of {ratio:.3}");
        for link in &route.links {
            println!("{:>3}  {} -> {}: {}", link.ttl, link.from, link.to, link.flows);
        }
    }
}

fn main() -> ExitCode {
    let Some(asked) = asked() else {
        eprintln!("an address, then icmp, udp or tcp, then a confidence");
        return ExitCode::from(2);
    };
    match trace_route(&asked, &AtomicBool::new(false), &mut |_| {}) {
        Ok(route) => {
            print(&route);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            if let Some(hint) = error.hint() {
                eprintln!("{hint}");
            }
            ExitCode::from(error.exit_code())
        }
    }
}
