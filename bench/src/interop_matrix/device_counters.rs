//! Records the counters of one host's device over time, and when a test's end message passed.
//!
//! A thread in the host's namespace reads the device's counters every few milliseconds, and
//! receives the one-byte messages of the control connection through a packet filter. The kernel
//! timestamps those, so that a receiver's count can be compared with the counter at the moment at
//! which the receiver was told to stop.
//!
//! Error: the counters are those of the last reading before that time; readings are `PERIOD` apart,
//! or more when the machine is busy. At 50 Mbit/s, 5 ms are 31 kB.

use longhaul_sys::netns::{self, NamespaceKind};
use longhaul_sys::packet_ring::{BpfInstruction, PacketRing};
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const PERIOD: Duration = Duration::from_millis(5);
/// The lab's device of each host.
const DEVICE: &str = "wan0";
/// The state byte of iperf3's protocol with which the client ends the test.
const TEST_END: u8 = 4;

/// The counters of a device since it was created.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DeviceCounters {
    pub received: DeviceTraffic,
    pub sent: DeviceTraffic,
}

/// The traffic of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DeviceTraffic {
    pub bytes: u64,
    pub packets: u64,
}

impl DeviceTraffic {
    /// Returns the payload since an earlier reading: the bytes without the headers of their packets.
    pub fn payload_since(self, before: DeviceTraffic, header_bytes: f64) -> f64 {
        let packets = (self.packets - before.packets) as f64;
        (self.bytes - before.bytes) as f64 - packets * header_bytes
    }
}

#[derive(Debug, Default)]
struct RecordedCounters {
    /// Times are since the epoch.
    readings: Vec<(Duration, DeviceCounters)>,
    ends: Vec<Duration>,
}

/// Observes one host until it is dropped.
#[derive(Debug)]
pub struct HostObserver {
    pid: u32,
    recorded: Arc<Mutex<RecordedCounters>>,
}

impl HostObserver {
    /// Observes the host of process `pid`.
    pub fn start(pid: u32) -> Result<HostObserver, String> {
        let open = move || {
            let net = File::open(format!("/proc/{pid}/ns/net"))?;
            netns::enter_namespace(&net, NamespaceKind::Net)?;
            PacketRing::open(&STATE_FILTER)
        };
        // The thread enters the host permanently, so it is a separate one.
        let ring = std::thread::spawn(open).join().map_err(|_| "the observer panicked")?;
        let ring = ring.map_err(|e| format!("cannot observe the host of process {pid}: {e}"))?;
        let recorded = Arc::default();
        let shared = Arc::clone(&recorded);
        std::thread::spawn(move || record_counters(pid, ring, &shared));
        Ok(HostObserver { pid, recorded })
    }

    /// Returns the current counters.
    pub fn now(&self) -> Result<DeviceCounters, String> {
        read_counters(self.pid, DEVICE)
            .ok_or_else(|| format!("device wan0 of process {} is gone", self.pid))
    }

    /// Discards earlier readings.
    pub fn clear(&self) {
        *self.recorded.lock().unwrap_or_else(PoisonError::into_inner) = RecordedCounters::default();
    }

    /// Returns the counters `lead` before the first message of a test's end; `None` if there was
    /// none.
    pub fn before_end(&self, lead: Duration) -> Option<DeviceCounters> {
        let recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        let at = recorded.ends.first()?.saturating_sub(lead);
        recorded.readings.iter().rev().find(|(time, _)| *time <= at).map(|(_, counters)| *counters)
    }
}

/// Records until the observer has been dropped.
fn record_counters(pid: u32, mut ring: PacketRing, shared: &Arc<Mutex<RecordedCounters>>) {
    while Arc::strong_count(shared) > 1 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let mut ends = Vec::new();
        ring.drain(&mut |packet| {
            if parse_state_byte(packet.bytes) == Some(TEST_END) {
                ends.push(packet.at);
            }
            true
        });
        let mut recorded = shared.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.ends.extend(ends);
        if let (Ok(now), Some(carried)) = (now, read_counters(pid, DEVICE)) {
            recorded.readings.push((now, carried));
        }
        drop(recorded);
        std::thread::sleep(PERIOD);
    }
}

/// Reads the counters of a device of the host of process `pid`.
pub fn read_counters(pid: u32, device: &str) -> Option<DeviceCounters> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/net/dev")).ok()?;
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, line) = lines.into_iter().find(|(name, _)| name.trim() == device)?;
    let fields: Vec<u64> = line.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    let traffic =
        |at: usize| Some(DeviceTraffic { bytes: *fields.get(at)?, packets: *fields.get(at + 1)? });
    Some(DeviceCounters { received: traffic(0)?, sent: traffic(8)? })
}

/// Matches packets with the length of one byte behind TCP timestamps, over IPv4 and IPv6. Codes from
/// `linux/bpf_common.h`.
const STATE_FILTER: [BpfInstruction; 5] = [
    BpfInstruction { code: 0x80, jt: 0, jf: 0, k: 0 },
    BpfInstruction { code: 0x15, jt: 2, jf: 0, k: 53 },
    BpfInstruction { code: 0x15, jt: 1, jf: 0, k: 73 },
    BpfInstruction { code: 0x06, jt: 0, jf: 0, k: 0 },
    BpfInstruction { code: 0x06, jt: 0, jf: 0, k: 128 },
];

/// Returns the single byte that the client sends on a connection to the server's port.
fn parse_state_byte(packet: &[u8]) -> Option<u8> {
    let (header, total) = match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet[0] & 0xf) * 4;
            (header, usize::from(read_be16(packet, 2)?))
        }
        6 => (40, 40 + usize::from(read_be16(packet, 4)?)),
        _ => return None,
    };
    let payload = header + usize::from(packet.get(header + 12)? >> 4) * 4;
    let to_server = read_be16(packet, header + 2)? == super::PORT;
    (to_server && total == payload + 1).then(|| packet.get(payload).copied())?
}

fn read_be16(packet: &[u8], at: usize) -> Option<u16> {
    let bytes = packet.get(at..at + 2)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a TCP packet with 12 bytes of options, from port 40000 to `port`, with `payload`.
    fn packet(version: u8, port: u16, payload: &[u8]) -> Vec<u8> {
        let tcp = [0x9c, 0x40, (port >> 8) as u8, port as u8];
        let length = (32 + payload.len()) as u16;
        let mut bytes = if version == 4 {
            let [high, low] = (20 + length).to_be_bytes();
            vec![0x45, 0, high, low]
        } else {
            let [high, low] = length.to_be_bytes();
            vec![0x60, 0, 0, 0, high, low]
        };
        bytes.resize(if version == 4 { 20 } else { 40 }, 0);
        bytes.extend(tcp);
        bytes.extend([0; 8]);
        bytes.push(8 << 4);
        bytes.resize(bytes.len() + 19, 0);
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn only_one_byte_to_the_server_is_a_state() {
        for version in [4, 6] {
            assert_eq!(parse_state_byte(&packet(version, 5201, &[4])), Some(4));
            assert_eq!(parse_state_byte(&packet(version, 5201, &[4, 4])), None);
            assert_eq!(parse_state_byte(&packet(version, 5202, &[4])), None);
            assert_eq!(parse_state_byte(&packet(version, 5201, &[])), None);
        }
        assert_eq!(parse_state_byte(&[]), None);
        assert_eq!(parse_state_byte(&[0x45, 0, 0, 41]), None);
    }
}
