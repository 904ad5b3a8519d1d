//! Reads the settings of a network interface and its device.

use super::notes::Notes;
use longhaul_sys::host::ethtool::{self, Feature};
use longhaul_sys::host::{core_list, interface, interrupts, pci, qdisc};
use std::collections::BTreeSet;
use std::io;

const FEATURES: [(&str, Feature); 7] = [
    ("interface.feature.gro", Feature::Gro),
    ("interface.feature.gso", Feature::Gso),
    ("interface.feature.lro", Feature::Lro),
    ("interface.feature.rx_checksum", Feature::RxChecksum),
    ("interface.feature.scatter_gather", Feature::ScatterGather),
    ("interface.feature.tso", Feature::Tso),
    ("interface.feature.tx_checksum", Feature::TxChecksum),
];
const RINGS: [&str; 4] = [
    "interface.ring.rx",
    "interface.ring.rx_max",
    "interface.ring.tx",
    "interface.ring.tx_max",
];
const COALESCING: [&str; 6] = [
    "interface.coalesce.adaptive_rx",
    "interface.coalesce.adaptive_tx",
    "interface.coalesce.rx_frames",
    "interface.coalesce.rx_usecs",
    "interface.coalesce.tx_frames",
    "interface.coalesce.tx_usecs",
];
const CHANNELS: [&str; 6] = [
    "interface.channels.combined",
    "interface.channels.combined_max",
    "interface.channels.rx",
    "interface.channels.rx_max",
    "interface.channels.tx",
    "interface.channels.tx_max",
];
const PAUSE: [&str; 3] = [
    "interface.pause.autoneg",
    "interface.pause.rx",
    "interface.pause.tx",
];

/// Reads everything about the interface `name`, which exists.
pub(super) fn read(notes: &mut Notes, name: &str) {
    notes.put("interface.name", name);
    device(notes, name);
    features(notes, name);
    rings(notes, name);
    coalescing(notes, name);
    channels(notes, name);
    pause(notes, name);
    queueing(notes, name);
    bus(notes, name);
}

fn device(notes: &mut Notes, name: &str) {
    let mtu = interface::mtu_bytes(name);
    notes.expected("interface.mtu", mtu, "the kernel does not tell");
    let queue = interface::queue_packets(name);
    notes.take(&["interface.txqueuelen"], queue, |notes, packets| {
        notes.put("interface.txqueuelen", packets);
    });
    let carrier = interface::has_carrier(name);
    notes.take(&["interface.carrier"], carrier, |notes, on| {
        notes.switch("interface.carrier", on);
    });
    let speed = interface::speed(name).map(longhaul_model::units::Rate::as_bps);
    let why = "the driver does not tell a speed, as many virtual devices do not";
    notes.expected("interface.speed_bps", speed, why);
}

fn features(notes: &mut Notes, name: &str) {
    for (reading, feature) in FEATURES {
        notes.take(&[reading], ethtool::feature(name, feature), |notes, on| {
            notes.switch(reading, on);
        });
    }
}

fn rings(notes: &mut Notes, name: &str) {
    notes.take(&RINGS, ethtool::rings(name), |notes, rings| {
        let values = [rings.rx, rings.rx_max, rings.tx, rings.tx_max];
        for (reading, value) in RINGS.into_iter().zip(values) {
            notes.put(reading, value);
        }
    });
}

fn coalescing(notes: &mut Notes, name: &str) {
    notes.take(&COALESCING, ethtool::coalescing(name), |notes, state| {
        notes.switch("interface.coalesce.adaptive_rx", state.adaptive_rx);
        notes.switch("interface.coalesce.adaptive_tx", state.adaptive_tx);
        notes.put("interface.coalesce.rx_frames", state.rx_frames);
        notes.put("interface.coalesce.rx_usecs", state.rx_usecs);
        notes.put("interface.coalesce.tx_frames", state.tx_frames);
        notes.put("interface.coalesce.tx_usecs", state.tx_usecs);
    });
}

fn channels(notes: &mut Notes, name: &str) {
    notes.take(&CHANNELS, ethtool::channels(name), |notes, state| {
        let values = [
            state.combined,
            state.combined_max,
            state.rx,
            state.rx_max,
            state.tx,
            state.tx_max,
        ];
        for (reading, value) in CHANNELS.into_iter().zip(values) {
            notes.put(reading, value);
        }
    });
}

fn pause(notes: &mut Notes, name: &str) {
    notes.take(&PAUSE, ethtool::pause(name), |notes, state| {
        notes.switch("interface.pause.autoneg", state.autoneg);
        notes.switch("interface.pause.rx", state.rx);
        notes.switch("interface.pause.tx", state.tx);
    });
}

fn queueing(notes: &mut Notes, name: &str) {
    notes.take(&["interface.qdisc"], qdisc::read(name), |notes, found| {
        let why = "the device is down, and has no queueing discipline until it is up";
        notes.expected("interface.qdisc", found.root, why);
        let leaves = (!found.leaves.is_empty()).then(|| found.leaves.join(" "));
        notes.optional("interface.qdisc.leaves", leaves);
        let ceiling = found.flow_max.map(longhaul_model::units::Rate::as_bps);
        notes.optional("interface.qdisc.maxrate_bps", ceiling);
    });
}

fn bus(notes: &mut Notes, name: &str) {
    let names = ["interface.driver"];
    let driver = ethtool::driver(name);
    let address = driver.as_ref().map_or(String::new(), |d| d.bus.clone());
    notes.take(&names, driver, |notes, driver| {
        notes.put("interface.driver", driver.name);
        let known = |text: String| (!text.is_empty()).then_some(text);
        notes.optional("interface.firmware", known(driver.firmware));
        notes.optional("interface.bus", known(driver.bus));
    });
    let link = pci::link(&address);
    let why = "the device is on no PCIe link, as virtual ones are not";
    notes.expected("interface.pci.speed_gtps", link.speed_gtps, why);
    notes.optional("interface.pci.speed_gtps_max", link.speed_gtps_max);
    notes.expected("interface.pci.width", link.width_lanes, why);
    notes.optional("interface.pci.width_max", link.width_lanes_max);
    notes.optional("interface.numa_node", pci::numa_node(&address));
    spread(notes, name, &address);
}

fn spread(notes: &mut Notes, name: &str, address: &str) {
    let reading = ["interface.irq.count"];
    notes.take(&reading, interrupts_of(name, address), |notes, spread| {
        if spread.count == 0 {
            let why = "the device has no interrupts of its own";
            notes.missing("interface.irq.count", why);
            return;
        }
        notes.put("interface.irq.count", spread.count);
        notes.put("interface.irq.cores", spread.cores.len());
        notes.put("interface.irq.cores_list", core_list::write(&spread.cores));
        let share = spread.busiest_ratio.map(|ratio| format!("{ratio:.3}"));
        notes.optional("interface.irq.busiest_ratio", share);
    });
}

/// The distribution of a device's interrupts over the cores.
struct Spread {
    count: usize,
    cores: Vec<u32>,
    /// `None` if there have been no interrupts yet.
    busiest_ratio: Option<f64>,
}

fn interrupts_of(name: &str, address: &str) -> io::Result<Spread> {
    let lines = interrupts::read()?;
    let mut own = pci::interrupts(address);
    own.retain(|number| lines.contains_key(number));
    if own.is_empty() {
        own = interrupts::named_after(&lines, name);
    }
    let cores: BTreeSet<u32> = own
        .iter()
        .filter_map(|&number| interrupts::cores(number))
        .flatten()
        .collect();
    let mut served: std::collections::BTreeMap<u32, u64> = std::collections::BTreeMap::new();
    for (&core, &count) in own.iter().flat_map(|number| &lines[number].counts) {
        let sum = served.entry(core).or_default();
        *sum = sum.saturating_add(count);
    }
    let all: u64 = served
        .values()
        .fold(0, |sum, &count| sum.saturating_add(count));
    let most = served.values().copied().max().unwrap_or(0);
    Ok(Spread {
        count: own.len(),
        cores: cores.into_iter().collect(),
        busiest_ratio: (all > 0).then(|| most as f64 / all as f64),
    })
}
