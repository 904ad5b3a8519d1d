//! Test networks for comparing throughput: a loopback or a veth pair in anonymous namespaces.
//!
//! A namespace lives as long as the process that holds it: a `cat` whose input is a pipe from here,
//! so that it ends with this program, however it ends. A veth pair disappears with its namespaces.
//! Nothing needs to be cleaned up.

use std::process::{Child, Command, Stdio};
use std::time::Duration;
use xtask::TaskResult;
use xtask::program_runner;

const LIMIT: Duration = Duration::from_secs(10);
/// The congestion control of all contenders; the machine's default may pace, which halves the rate
/// on a veth.
const CONGESTION_CONTROL: &str = "cubic";

/// A network namespace and the process that keeps it alive.
#[derive(Debug)]
pub struct TestNamespace {
    holder: Child,
}

impl TestNamespace {
    pub fn new() -> Result<Self, String> {
        let holder = Command::new("unshare")
            .args(["--net", "--", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|e| format!("cannot start `unshare --net`: {e}"))?;
        let namespace = TestNamespace { holder };
        namespace.wait_until_separate()?;
        namespace.run(&["ip", "link", "set", "lo", "up"])?;
        let control = format!("net.ipv4.tcp_congestion_control={CONGESTION_CONTROL}");
        namespace.run(&["sysctl", "--quiet", "--write", &control])?;
        Ok(namespace)
    }

    /// Waits until the holder has entered its namespace, which takes some time after its start.
    fn wait_until_separate(&self) -> TaskResult {
        let link = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        let ours = link("self");
        let tries = 500;
        for _ in 0..tries {
            let theirs = link(&self.pid().to_string());
            if theirs.is_some() && theirs != ours {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err("`unshare --net` made no namespace; run as root".to_owned())
    }

    pub fn pid(&self) -> u32 {
        self.holder.id()
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

    /// Returns the bytes and packets that `device` has received.
    pub fn received(&self, device: &str) -> Option<(u64, u64)> {
        let text = std::fs::read_to_string(format!("/proc/{}/net/dev", self.pid())).ok()?;
        let line = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{device}:")))?;
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    }
}

impl Drop for TestNamespace {
    fn drop(&mut self) {
        program_runner::kill_child(&mut self.holder);
    }
}

/// Two ends and the device between them.
#[derive(Debug)]
pub struct TestNetwork {
    pub name: String,
    near: TestNamespace,
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

    pub fn near(&self) -> &TestNamespace {
        &self.near
    }

    pub fn far(&self) -> &TestNamespace {
        self.far.as_ref().unwrap_or(&self.near)
    }

    /// Returns the payload bytes that have arrived at the far end.
    pub fn payload_bytes(&self) -> Option<u64> {
        self.payload_bytes_at(self.far())
    }

    /// Returns the payload bytes that have arrived at `end`, one of the two ends.
    pub fn payload_bytes_at(&self, end: &TestNamespace) -> Option<u64> {
        let (bytes, packets) = end.received(self.device)?;
        Some(bytes.saturating_sub(packets * self.header_bytes))
    }
}

/// The sysctl of the congestion controls that namespaces may use.
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// Allows `CONGESTION_CONTROL` in namespaces, and restores the old list at the end.
///
/// A separate process restores it when a pipe from here closes, so it happens however this program
/// ends.
#[derive(Debug)]
pub struct AllowedControl {
    keeper: Option<Child>,
}

impl AllowedControl {
    pub fn new() -> Result<Self, String> {
        let before =
            std::fs::read_to_string(ALLOWED).map_err(|e| format!("cannot read {ALLOWED}: {e}"))?;
        let before = before.trim();
        if before.split(' ').any(|name| name == CONGESTION_CONTROL) {
            return Ok(AllowedControl { keeper: None });
        }
        let restore = "cat >/dev/null; printf '%s' \"$0\" > \"$1\"";
        let keeper = Command::new("setsid")
            .args(["--wait", "sh", "-c", restore, before, ALLOWED])
            .stdin(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot start the keeper of {ALLOWED}: {e}"))?;
        std::fs::write(ALLOWED, format!("{before} {CONGESTION_CONTROL}"))
            .map_err(|e| format!("cannot allow {CONGESTION_CONTROL} in namespaces: {e}"))?;
        Ok(AllowedControl { keeper: Some(keeper) })
    }
}

impl Drop for AllowedControl {
    fn drop(&mut self) {
        let Some(keeper) = &mut self.keeper else {
            return;
        };
        drop(keeper.stdin.take());
        if program_runner::wait_with_limit(keeper, LIMIT).is_err() {
            eprintln!("{ALLOWED} could not be written back");
        }
    }
}
