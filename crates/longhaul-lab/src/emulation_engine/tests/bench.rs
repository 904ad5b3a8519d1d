//! Test fixture: sends packets at nominal times and collects what arrives.

use super::packet_builder::PacketDraft;
use crate::emulation_engine::{EmulationEngine, LabHost, Nanos};
use crate::path_spec::{HopSpec, HostSpec, LinkSpec, MachineSpec, PathSpec};
use longhaul_model::units::{Bytes, Rate};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

pub const MS: Nanos = 1_000_000;
pub const SECOND: Nanos = 1_000_000_000;

/// Returns a configuration that writes no regression files; a failure's message has its seed.
pub fn cases(cases: u32) -> proptest::test_runner::Config {
    proptest::test_runner::Config {
        cases,
        failure_persistence: None,
        ..proptest::test_runner::Config::default()
    }
}

pub fn hop(name: &str, forward: LinkSpec, reverse: LinkSpec) -> HopSpec {
    HopSpec { name: name.to_owned(), forward, reverse, ..HopSpec::default() }
}

pub fn path(hops: Vec<HopSpec>) -> PathSpec {
    PathSpec {
        key: "bench".to_owned(),
        name: "a path on the table".to_owned(),
        mtu: 1500,
        seed: 1,
        near: HostSpec::default(),
        far: HostSpec::default(),
        hops,
        routes: BTreeMap::new(),
        events: vec![],
        begin_at: Duration::ZERO,
        machine: MachineSpec::default(),
    }
}

pub fn delay(millis: u64) -> LinkSpec {
    LinkSpec { delay: Duration::from_millis(millis), ..LinkSpec::default() }
}

pub fn rate(mbps: u64) -> LinkSpec {
    let rate = Some(Rate::bits_per_second(mbps * 1_000_000));
    LinkSpec { rate, ..LinkSpec::default() }
}

pub fn queue(mut link: LinkSpec, bytes: u64) -> LinkSpec {
    link.queue = Some(Bytes(bytes));
    link
}

/// Returns a path of one hop with a default reverse direction.
pub fn one_link(forward: LinkSpec) -> PathSpec {
    path(vec![hop("far", forward, delay(1))])
}

pub fn near_to_far() -> (IpAddr, IpAddr) {
    (IpAddr::V4(LabHost::Near.address().v4), IpAddr::V4(LabHost::Far.address().v4))
}

pub fn udp() -> PacketDraft {
    let (near, far) = near_to_far();
    PacketDraft::udp(near, far)
}

pub fn tcp(sequence: u32) -> PacketDraft {
    let (near, far) = near_to_far();
    PacketDraft { segment_bytes: Some(1448), ..PacketDraft::tcp(near, far, sequence) }
}

/// A packet that a host received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    pub host: LabHost,
    pub due: Nanos,
    /// virtio_net_hdr, headers and payload.
    pub frame: Vec<u8>,
}

impl Arrival {
    pub fn ip(&self) -> &[u8] {
        &self.frame[10..]
    }

    pub fn gso_size(&self) -> usize {
        usize::from(u16::from_le_bytes([self.frame[4], self.frame[5]]))
    }
}

pub fn send(
    engine: &mut EmulationEngine,
    host: LabHost,
    draft: &PacketDraft,
    payload: &[u8],
    now: Nanos,
) {
    let len = draft.write(engine.reserve(), payload);
    engine.accept(host, len, now);
}

/// Collects everything that arrives by `until`.
pub fn collect(engine: &mut EmulationEngine, until: Nanos) -> Vec<Arrival> {
    let mut all = vec![];
    while let Some(delivery) = engine.advance(until) {
        let frame = [delivery.header, delivery.payload].concat();
        all.push(Arrival { host: delivery.host, due: delivery.due, frame });
    }
    all
}
