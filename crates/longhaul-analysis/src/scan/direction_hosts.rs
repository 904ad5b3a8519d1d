//! The two hosts of one direction, from the probes' reports.

use crate::scan::scan_cells::cell_goodput;
use longhaul_model::report::v1::ThroughputReport;
use longhaul_model::report::v1::observation::HostFacts;
use longhaul_model::report::v1::scan::ScanCell;

/// Sender and receiver of one direction; `None` without a report.
#[derive(Debug, Clone, Copy, Default)]
pub struct DirectionHosts<'a> {
    pub sender: Option<&'a HostFacts>,
    pub receiver: Option<&'a HostFacts>,
}

impl<'a> DirectionHosts<'a> {
    pub fn of(runs: &'a [ThroughputReport], forward: bool) -> DirectionHosts<'a> {
        let latest = runs
            .iter()
            .filter(|r| r.observation.forward == forward)
            .max_by(|a, b| a.run.id.cmp(&b.run.id));
        let ends = latest.map(|run| &run.observation.ends);
        DirectionHosts {
            sender: ends.map(|e| &e.sender.host),
            receiver: ends.map(|e| &e.receiver.host),
        }
    }

    pub fn end(&self, end: ScanEnd) -> Option<&'a HostFacts> {
        match end {
            ScanEnd::Sender => self.sender,
            ScanEnd::Receiver => self.receiver,
        }
    }

    /// Returns the host's name, or its role.
    pub fn name(&self, end: ScanEnd) -> String {
        let named = self.end(end).filter(|h| !h.name.is_empty());
        named.map_or_else(|| format!("the {}", end.place()), |h| h.name.clone())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanEnd {
    Sender,
    Receiver,
}

impl ScanEnd {
    pub const fn place(self) -> &'static str {
        match self {
            ScanEnd::Sender => "sender",
            ScanEnd::Receiver => "receiver",
        }
    }

    /// Returns the sysctl that clips requested windows.
    pub const fn max_sysctl(self) -> &'static str {
        match self {
            ScanEnd::Sender => "net.core.wmem_max",
            ScanEnd::Receiver => "net.core.rmem_max",
        }
    }

    /// Returns the sysctl whose third value is the maximum of autotuned windows.
    pub const fn autotuning_sysctl(self) -> &'static str {
        match self {
            ScanEnd::Sender => "net.ipv4.tcp_wmem",
            ScanEnd::Receiver => "net.ipv4.tcp_rmem",
        }
    }

    pub const fn max_bytes(self, host: &HostFacts) -> Option<u64> {
        match self {
            ScanEnd::Sender => host.wmem_max_bytes,
            ScanEnd::Receiver => host.rmem_max_bytes,
        }
    }

    pub const fn autotuning_bytes(self, host: &HostFacts) -> Option<[u64; 3]> {
        match self {
            ScanEnd::Sender => host.tcp_wmem_bytes,
            ScanEnd::Receiver => host.tcp_rmem_bytes,
        }
    }

    pub const fn granted(self, cell: &ScanCell) -> Option<u64> {
        match self {
            ScanEnd::Sender => cell.granted_send_bytes,
            ScanEnd::Receiver => cell.granted_receive_bytes,
        }
    }

    /// Returns (requested, granted) of the fastest cell in which this host granted less than
    /// requested.
    pub fn clipped_window(self, cells: &[&ScanCell], forward: bool) -> Option<(u64, u64)> {
        let clipped = cells.iter().filter(|c| c.forward == forward).filter_map(|c| {
            let (asked, granted) = (c.setting.window_bytes?, self.granted(c)?);
            (granted < asked).then_some((cell_goodput(c), asked, granted))
        });
        let fastest = clipped.max_by(|a, b| a.0.total_cmp(&b.0));
        fastest.map(|(_, asked, granted)| (asked, granted))
    }
}
