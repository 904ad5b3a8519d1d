//! The two hosts of one direction, from the probes' reports.

use crate::scan::cells::goodput;
use longhaul_model::report::v1::Throughput;
use longhaul_model::report::v1::observation::Host;
use longhaul_model::report::v1::scan::Cell;

/// Sender and receiver of one direction; `None` without a report.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hosts<'a> {
    pub sender: Option<&'a Host>,
    pub receiver: Option<&'a Host>,
}

impl<'a> Hosts<'a> {
    pub fn of(runs: &'a [Throughput], forward: bool) -> Hosts<'a> {
        let latest = runs
            .iter()
            .filter(|r| r.observation.forward == forward)
            .max_by(|a, b| a.run.id.cmp(&b.run.id));
        let ends = latest.map(|run| &run.observation.ends);
        Hosts {
            sender: ends.map(|e| &e.sender.host),
            receiver: ends.map(|e| &e.receiver.host),
        }
    }

    pub fn end(&self, end: End) -> Option<&'a Host> {
        match end {
            End::Sender => self.sender,
            End::Receiver => self.receiver,
        }
    }

    /// Returns the host's name, or its role.
    pub fn name(&self, end: End) -> String {
        let named = self.end(end).filter(|h| !h.name.is_empty());
        named.map_or_else(|| format!("the {}", end.place()), |h| h.name.clone())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Sender,
    Receiver,
}

impl End {
    pub const fn place(self) -> &'static str {
        match self {
            End::Sender => "sender",
            End::Receiver => "receiver",
        }
    }

    /// Returns the sysctl that clips requested windows.
    pub const fn ceiling(self) -> &'static str {
        match self {
            End::Sender => "net.core.wmem_max",
            End::Receiver => "net.core.rmem_max",
        }
    }

    /// Returns the sysctl whose third value is the maximum of autotuned windows.
    pub const fn sizes(self) -> &'static str {
        match self {
            End::Sender => "net.ipv4.tcp_wmem",
            End::Receiver => "net.ipv4.tcp_rmem",
        }
    }

    pub const fn ceiling_bytes(self, host: &Host) -> Option<u64> {
        match self {
            End::Sender => host.wmem_max_bytes,
            End::Receiver => host.rmem_max_bytes,
        }
    }

    pub const fn sizes_bytes(self, host: &Host) -> Option<[u64; 3]> {
        match self {
            End::Sender => host.tcp_wmem_bytes,
            End::Receiver => host.tcp_rmem_bytes,
        }
    }

    pub const fn granted(self, cell: &Cell) -> Option<u64> {
        match self {
            End::Sender => cell.granted_send_bytes,
            End::Receiver => cell.granted_receive_bytes,
        }
    }

    /// Returns (requested, granted) of the fastest cell in which this host granted less than
    /// requested.
    pub fn clip(self, cells: &[&Cell], forward: bool) -> Option<(u64, u64)> {
        let clipped = cells
            .iter()
            .filter(|c| c.forward == forward)
            .filter_map(|c| {
                let (asked, granted) = (c.setting.window_bytes?, self.granted(c)?);
                (granted < asked).then_some((goodput(c), asked, granted))
            });
        let fastest = clipped.max_by(|a, b| a.0.total_cmp(&b.0));
        fastest.map(|(_, asked, granted)| (asked, granted))
    }
}
