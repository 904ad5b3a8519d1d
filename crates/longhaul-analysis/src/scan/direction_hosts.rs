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
        end.pick(self.sender, self.receiver)
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
    fn pick<T>(self, sender: T, receiver: T) -> T {
        match self {
            ScanEnd::Sender => sender,
            ScanEnd::Receiver => receiver,
        }
    }

    pub fn place(self) -> &'static str {
        self.pick("sender", "receiver")
    }

    /// Returns the sysctl that clips requested windows.
    pub fn max_sysctl(self) -> &'static str {
        self.pick("net.core.wmem_max", "net.core.rmem_max")
    }

    /// Returns the sysctl whose third value is the maximum of autotuned windows.
    pub fn autotuning_sysctl(self) -> &'static str {
        self.pick("net.ipv4.tcp_wmem", "net.ipv4.tcp_rmem")
    }

    pub fn max_bytes(self, host: &HostFacts) -> Option<u64> {
        self.pick(host.wmem_max_bytes, host.rmem_max_bytes)
    }

    pub fn autotuning_bytes(self, host: &HostFacts) -> Option<[u64; 3]> {
        self.pick(host.tcp_wmem_bytes, host.tcp_rmem_bytes)
    }

    pub fn granted(self, cell: &ScanCell) -> Option<u64> {
        self.pick(cell.granted_send_bytes, cell.granted_receive_bytes)
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
