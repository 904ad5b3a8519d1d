//! Test networks for comparing throughput: a loopback or a veth pair in anonymous namespaces.
//!
//! A namespace lives as long as the process that holds it: a `cat` whose input is a pipe from here,
//! so that it ends with this program, however it ends. A veth pair disappears with its namespaces.
//! Nothing needs to be cleaned up.

use crate::interop_matrix::device_counters::read_counters;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;
use xtask::TaskResult;
use xtask::program_runner::{self, ChildGuard};

const LIMIT: Duration = Duration::from_secs(10);
/// The congestion control of all contenders; the machine's default may pace, which halves the rate
/// on a veth.
const CONGESTION_CONTROL: &str = "net.ipv4.tcp_congestion_control=cubic";

/// A network namespace and the process that keeps it alive.
#[derive(Debug)]
pub struct TestNamespace {
    holder: ChildGuard,
}

impl TestNamespace {
    pub fn new() -> Result<Self, String> {
        // It prints a line when it has entered its namespace.
        let mut command = Command::new("unshare");
        command.args(["--net", "--", "sh", "-c", "echo; exec cat"]);
        let mut holder =
            program_runner::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let entered = holder.stdout.take().map(|mut out| out.read_exact(&mut [0]));
        let namespace = TestNamespace { holder: ChildGuard(holder) };
        if !matches!(entered, Some(Ok(()))) {
            return Err("`unshare --net` made no namespace; run as root".to_owned());
        }
        namespace.run(&["ip", "link", "set", "lo", "up"])?;
        namespace.run(&["sysctl", "--quiet", "--write", CONGESTION_CONTROL]).map_err(|e| {
            format!(
                "{e}; allow it first: sysctl -w net.ipv4.tcp_allowed_congestion_control='cubic …'"
            )
        })?;
        Ok(namespace)
    }

    pub fn pid(&self) -> u32 {
        self.holder.0.id()
    }

    /// Returns the command prefix that runs a command in the namespace.
    pub fn enter(&self) -> Vec<String> {
        let words = format!("setpriv --pdeathsig KILL nsenter --net --target {} --", self.pid());
        words.split(' ').map(str::to_owned).collect()
    }

    fn run(&self, words: &[&str]) -> TaskResult {
        let enter = self.enter();
        let mut command = Command::new(&enter[0]);
        command.args(&enter[1..]).args(words);
        program_runner::capture_stdout(&mut command, LIMIT).map(drop)
    }
}

/// Two ends and the device between them.
#[derive(Debug)]
pub struct TestNetwork {
    pub name: String,
    pub near: TestNamespace,
    /// `None` if both ends share one namespace.
    far: Option<TestNamespace>,
    /// The address of the far end.
    pub address: &'static str,
    device: &'static str,
    /// The header bytes per packet, as the device counts: IP, TCP with timestamps, and Ethernet if
    /// there is any.
    header_bytes: u64,
}

impl TestNetwork {
    pub fn loopback() -> Result<Self, String> {
        Ok(TestNetwork {
            name: "loopback, MTU 65536".to_owned(),
            near: TestNamespace::new()?,
            far: None,
            address: "127.0.0.1",
            device: "lo",
            header_bytes: 52,
        })
    }

    pub fn veth(mtu: u32) -> Result<Self, String> {
        let (near, far) = (TestNamespace::new()?, TestNamespace::new()?);
        let (mtu_text, near_pid, far_pid) =
            (mtu.to_string(), near.pid().to_string(), far.pid().to_string());
        let mut add = Command::new("ip");
        add.args(["link", "add", "lh0", "mtu", &mtu_text, "netns", &near_pid, "type", "veth"]);
        add.args(["peer", "name", "lh0", "mtu", &mtu_text, "netns", &far_pid]);
        program_runner::capture_stdout(&mut add, LIMIT)?;
        for (namespace, address) in [(&near, "10.77.1.1/24"), (&far, "10.77.1.2/24")] {
            namespace.run(&["ip", "address", "add", address, "dev", "lh0"])?;
            namespace.run(&["ip", "link", "set", "lh0", "up"])?;
        }
        Ok(TestNetwork {
            name: format!("veth, MTU {mtu}"),
            near,
            far: Some(far),
            address: "10.77.1.2",
            device: "lh0",
            header_bytes: 66,
        })
    }

    pub fn far(&self) -> &TestNamespace {
        self.far.as_ref().unwrap_or(&self.near)
    }

    /// Returns the payload bytes that have arrived at the far end.
    pub fn payload_bytes(&self) -> Option<u64> {
        let received = read_counters(self.far().pid(), self.device)?.received;
        Some(received.bytes.saturating_sub(received.packets * self.header_bytes))
    }
}
