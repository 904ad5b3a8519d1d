//! Measures the CPU cost of the engine. Sends super-packets of 64 KiB at 6.25 Gbit/s of virtual
//! time over the chains of the two land-speed-record paths; prints nanoseconds per super-packet and
//! the share of one core that the engine takes when virtual time is real time.
//!
//! The copies that a kernel makes on read and write are not included; payloads are not touched.
//!
//! ```text
//! cargo run --release -p longhaul-lab --example engine_cost
//! ```

use longhaul_lab::emulation_engine::pooled_packet::packet_builder::PacketDraft;
use longhaul_lab::emulation_engine::{ADDRESSES, EmulationEngine, LabHost, Nanos};
use longhaul_lab::path_spec::{HopSpec, HostSpec, LinkSpec, MachineSpec, PathSpec};
use longhaul_model::units::{Bytes, Rate};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

const SECONDS: u64 = 10;
const RATE: Rate = Rate::bits_per_second(6_250_000_000);
const SEGMENTS: u64 = 45;
/// Payload 1448, headers 40, Ethernet 38.
const WIRE_BYTES: u64 = SEGMENTS * 1526;

fn chain(hops: usize, one_way: Duration, rated_links: usize) -> PathSpec {
    let delay = one_way / hops as u32;
    let hop = |index: usize| {
        let rate = if index == hops / 2 {
            Some(RATE)
        } else {
            (index < rated_links).then_some(Rate::bits_per_second(10_000_000_000))
        };
        let queue = Some(Bytes(128_000_000));
        let link = LinkSpec { delay, rate, queue, ..LinkSpec::default() };
        HopSpec {
            name: format!("r{index}"),
            forward: link.clone(),
            reverse: link,
            ..HopSpec::default()
        }
    };
    PathSpec {
        key: "cost".to_owned(),
        name: "engine cost".to_owned(),
        mtu: 1500,
        seed: 1,
        near: HostSpec::default(),
        far: HostSpec::default(),
        hops: (0..hops).map(hop).collect(),
        routes: BTreeMap::new(),
        events: vec![],
        begin_at: Duration::ZERO,
        machine: MachineSpec::default(),
    }
}

struct Cost {
    super_packets: u64,
    deliveries: u64,
    elapsed: Duration,
    memory_bytes: u64,
}

/// Returns the CPU time of this thread, from /proc: other work on the machine does not count.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanos.expect("this kernel gives each thread's CPU time in schedstat"))
}

fn run(spec: &PathSpec) -> Cost {
    let mut engine = EmulationEngine::new(spec, 0);
    let (near, far) = (IpAddr::V4(ADDRESSES.near_v4), IpAddr::V4(ADDRESSES.far_v4));
    let data = PacketDraft { segment_bytes: Some(1448), ..PacketDraft::tcp(near, far, 0) };
    let acknowledgement = PacketDraft::tcp(far, near, 0);
    let mut frame = vec![0; 70_000];
    let frame_bytes = data.write(&mut frame, &vec![0; (SEGMENTS * 1448) as usize]);
    let headers = 10 + data.header_bytes();
    let gap = RATE.time_for(WIRE_BYTES).unwrap_or_default().as_nanos() as Nanos;
    let mut deliveries = 0;
    let mut super_packets = 0;
    let started = cpu_time();
    for now in (0..SECONDS * 1_000_000_000).step_by(gap as usize) {
        while let Some(due) = engine.next_due().filter(|due| *due <= now) {
            while engine.advance(due).is_some() {
                deliveries += 1;
            }
        }
        engine.reserve()[..headers].copy_from_slice(&frame[..headers]);
        engine.accept(LabHost::Near, frame_bytes, now);
        let len = acknowledgement.write(engine.reserve(), &[]);
        engine.accept(LabHost::Far, len, now);
        super_packets += 1;
    }
    let elapsed = cpu_time().saturating_sub(started);
    let memory_bytes = engine.truth(SECONDS * 1_000_000_000).memory_bytes;
    Cost { super_packets, deliveries, elapsed, memory_bytes }
}

fn main() {
    let paths = [
        ("9 hops, 172 ms, one rate", chain(9, Duration::from_millis(86), 0)),
        ("43 hops, 172 ms, one rate", chain(43, Duration::from_millis(86), 0)),
        ("9 hops, 172 ms, all rated", chain(9, Duration::from_millis(86), 9)),
        ("43 hops, 436 ms, all rated", chain(43, Duration::from_millis(218), 43)),
    ];
    println!("{SECONDS} s of {RATE} in super-packets of {SEGMENTS} segments, one ACK each");
    for (name, spec) in paths {
        let cost = run(&spec);
        let each = cost.elapsed.as_nanos() / u128::from(cost.super_packets);
        let share = cost.elapsed.as_secs_f64() / SECONDS as f64 * 100.0;
        let Cost { super_packets, deliveries, .. } = cost;
        println!(
            "{name:28} {each:6} ns per super-packet, {share:5.2} % of a core \
             ({super_packets} in, {deliveries} out, {})",
            Bytes(cost.memory_bytes)
        );
    }
}
