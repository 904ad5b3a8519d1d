//! PCIe properties of a device: link, NUMA node, interrupts, and the machine's IOMMU.
//!
//! Source: sysfs `bus/pci/devices` and `kernel/iommu_groups`. Devices are identified by bus
//! address, so results are the same in every network namespace.

use super::read_kernel_file;
use std::fs;
use std::path::PathBuf;

/// Returns a device's sysfs folder; `None` for invalid bus addresses, to prevent path injection.
fn device_folder(bus: &str) -> Option<PathBuf> {
    let plain = bus.bytes().all(|b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.'));
    (plain && bus.contains(':') && !bus.contains(".."))
        .then(|| PathBuf::from("/sys/bus/pci/devices").join(bus))
}

fn read_device_file(bus: &str, file: &str) -> Option<String> {
    read_kernel_file(device_folder(bus)?.join(file))
}

/// Speed and width of a PCIe link, current and maximum.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PcieLink {
    /// Speed in GT/s as the kernel writes it, such as `8.0`; absent for a virtual device.
    pub speed_gtps: Option<String>,
    pub speed_gtps_max: Option<String>,
    pub width_lanes: Option<u32>,
    pub width_lanes_max: Option<u32>,
}

/// Reads the link of the device at `bus`.
pub fn read_pcie_link(bus: &str) -> PcieLink {
    let speed = |file| parse_speed(&read_device_file(bus, file)?);
    let width = |file| parse_width(&read_device_file(bus, file)?);
    PcieLink {
        speed_gtps: speed("current_link_speed"),
        speed_gtps_max: speed("max_link_speed"),
        width_lanes: width("current_link_width"),
        width_lanes_max: width("max_link_width"),
    }
}

/// Parses `8.0 GT/s PCIe` (older kernels: `8 GT/s`); a virtual device has `Unknown`.
fn parse_speed(text: &str) -> Option<String> {
    let (speed, _) = text.split_once(" GT/s")?;
    speed.parse::<f64>().ok()?;
    Some(speed.to_owned())
}

/// Parses the number of lanes; 0 and 255 mean unknown.
fn parse_width(text: &str) -> Option<u32> {
    let width = text.trim_start_matches('x').parse().ok()?;
    (1..=64).contains(&width).then_some(width)
}

/// Returns the NUMA node, if the machine has several.
pub fn numa_node(bus: &str) -> Option<u32> {
    read_device_file(bus, "numa_node")?.parse().ok()
}

/// Returns the numbers of the device's message-signalled interrupts, if any.
pub fn list_msi_interrupts(bus: &str) -> Vec<u32> {
    let Some(folder) = device_folder(bus) else {
        return Vec::new();
    };
    let entries = fs::read_dir(folder.join("msi_irqs"));
    let names = entries.into_iter().flatten().flatten();
    let mut numbers: Vec<u32> =
        names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// Returns the distinct types of the machine's IOMMU groups: `DMA`, `DMA-FQ`, `identity`. Empty: no
/// IOMMU is in use. `None`: unreadable.
pub fn iommu_kinds() -> Option<Vec<String>> {
    let mut kinds: Vec<String> = fs::read_dir("/sys/kernel/iommu_groups")
        .ok()?
        .flatten()
        .filter_map(|group| read_kernel_file(group.path().join("type")))
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    Some(kinds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_told_as_old_and_new_kernels_write_it() {
        assert_eq!(parse_speed("8.0 GT/s PCIe").as_deref(), Some("8.0"));
        assert_eq!(parse_speed("16 GT/s").as_deref(), Some("16"));
        assert_eq!(parse_speed("Unknown"), None);
        assert_eq!(parse_speed("fast GT/s"), None);
        assert_eq!(parse_width("8"), Some(8));
        for unknown in ["0", "255", "", "-1"] {
            assert_eq!(parse_width(unknown), None);
        }
    }

    #[test]
    fn only_a_bus_address_leads_to_a_folder() {
        assert!(device_folder("0000:3b:00.0").is_some());
        for wrong in ["", "..", "../..", "usb-1", "0000:..", "tap", "/etc"] {
            assert_eq!(device_folder(wrong), None, "{wrong:?}");
        }
        assert_eq!(read_pcie_link("ffff:ff:ff.7"), PcieLink::default());
        assert!(list_msi_interrupts("ffff:ff:ff.7").is_empty());
    }
}
