//! Reads the settings of a network interface and its device.

use super::readings_builder::{ReadingsBuilder, switch_text};
use longhaul_model::units::Rate;
use longhaul_sys::host::interrupts::InterruptLine;
use longhaul_sys::host::{core_list, ethtool, interrupts, network_interface, pci, qdisc};
use std::collections::{BTreeMap, BTreeSet};

/// Reads everything about the interface `name`, which exists.
pub(super) fn read_interface(notes: &mut ReadingsBuilder, name: &str) {
    notes.put("interface.name", name);
    read_device(notes, name);
    read_driver_settings(notes, name);
    read_qdisc(notes, name);
    read_bus(notes, name);
}

fn read_device(notes: &mut ReadingsBuilder, name: &str) {
    let mtu = network_interface::mtu_bytes(name);
    notes.put_or_missing("interface.mtu", mtu, "the kernel does not report it");
    let queue = network_interface::transmit_queue_packets(name);
    notes.put_result("interface.txqueuelen", queue);
    let carrier = network_interface::has_carrier(name).map(switch_text);
    notes.put_result("interface.carrier", carrier);
    let speed = ethtool::link_speed(name).map(Rate::as_bps);
    let why = "the driver reports no speed, as usual for virtual devices";
    notes.put_or_missing("interface.speed_bps", speed, why);
}

fn read_driver_settings(notes: &mut ReadingsBuilder, name: &str) {
    for setting in ethtool::READINGS {
        notes.put_result(&format!("interface.{}", setting.name), setting.query(name));
    }
}

fn read_qdisc(notes: &mut ReadingsBuilder, name: &str) {
    let Some(found) = notes.check("interface.qdisc", qdisc::query_qdisc(name)) else {
        return;
    };
    let why = "the device is down; it has no queueing discipline until it is up";
    notes.put_or_missing("interface.qdisc", found.root, why);
    let leaves = (!found.leaves.is_empty()).then(|| found.leaves.join(" "));
    notes.put_optional("interface.qdisc.leaves", leaves);
    notes.put_optional("interface.qdisc.maxrate_bps", found.flow_max.map(Rate::as_bps));
}

fn read_bus(notes: &mut ReadingsBuilder, name: &str) {
    let driver = notes.check("interface.driver", ethtool::query_driver(name)).unwrap_or_default();
    let known = |text: &String| (!text.is_empty()).then(|| text.clone());
    notes.put_optional("interface.driver", known(&driver.name));
    notes.put_optional("interface.firmware", known(&driver.firmware));
    notes.put_optional("interface.bus", known(&driver.bus));
    let address = driver.bus;
    let link = pci::read_pcie_link(&address);
    let why = "the device is not on a PCIe link, as usual for virtual devices";
    notes.put_or_missing("interface.pci.speed_gtps", link.speed_gtps, why);
    notes.put_optional("interface.pci.speed_gtps_max", link.speed_gtps_max);
    notes.put_or_missing("interface.pci.width", link.width_lanes, why);
    notes.put_optional("interface.pci.width_max", link.width_lanes_max);
    notes.put_optional("interface.numa_node", pci::numa_node(&address));
    read_interrupts(notes, name, &address);
}

fn read_interrupts(notes: &mut ReadingsBuilder, name: &str, address: &str) {
    let Some(lines) = notes.check("interface.irq.count", interrupts::read_proc_interrupts()) else {
        return;
    };
    let mut own = pci::list_msi_interrupts(address);
    own.retain(|number| lines.contains_key(number));
    if own.is_empty() {
        own = interrupts::find_interface_interrupts(&lines, name);
    }
    if own.is_empty() {
        notes.missing("interface.irq.count", "the device has no interrupts of its own");
    } else {
        put_interrupts(notes, &lines, &own);
    }
}

/// Adds the distribution of a device's interrupts over the cores.
fn put_interrupts(notes: &mut ReadingsBuilder, lines: &BTreeMap<u32, InterruptLine>, own: &[u32]) {
    let cores: BTreeSet<u32> =
        own.iter().filter_map(|&number| interrupts::interrupt_cores(number)).flatten().collect();
    let mut served: BTreeMap<u32, u64> = BTreeMap::new();
    for (&core, &count) in own.iter().flat_map(|number| &lines[number].counts) {
        let sum = served.entry(core).or_default();
        *sum = sum.saturating_add(count);
    }
    let all: u64 = served.values().fold(0, |sum, &count| sum.saturating_add(count));
    let most = served.values().copied().max().unwrap_or(0);
    let cores: Vec<u32> = cores.into_iter().collect();
    notes.put("interface.irq.count", own.len());
    notes.put("interface.irq.cores", cores.len());
    notes.put("interface.irq.cores_list", core_list::format_core_list(&cores));
    // There may have been no interrupts yet.
    let share = (all > 0).then(|| format!("{:.3}", most as f64 / all as f64));
    notes.put_optional("interface.irq.busiest_ratio", share);
}
