//! The processes that hold sockets, and their activity, from /proc.
//!
//! Source: proc(5); the control group's `cpu.stat`, `cpu.max`, `io.pressure` and `memory.pressure` (cgroup v2).
//! Without privilege the sockets and disk counters of other users' processes are hidden; their threads are
//! not. Units: microseconds, bytes. Error: a thread's state is looked at once per sample; delay accounting
//! counts in ticks of 10 ms.

use super::FlowSelector;
use longhaul_model::report::v1::flows::{ProcessActivity, ProcessIdentity};
use longhaul_model::sanitize::sanitize_line;
use procfs::process::{FDTarget, Process, Task};
use procfs::{FromRead, IoPressure, MemoryPressure};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The maximum number of generations of processes that are followed.
const MAX_GENERATIONS: usize = 16;
/// Processes that start others of any kind; as parents they explain nothing.
const STARTERS: [&str; 9] =
    ["systemd", "init", "sh", "bash", "dash", "zsh", "fish", "sshd", "containerd-shim"];
/// The maximum length of the name of a process.
const MAX_NAME_CHARS: usize = 32;
/// The maximum number of threads of a process that are looked at.
const MAX_THREADS: usize = 256;

/// Times of the busiest thread of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadTimes {
    pub cpu_us: u64,
    /// Runnable without a core.
    pub core_wait_us: u64,
}

/// The processes that were found.
#[derive(Default)]
pub struct ProcessTable {
    /// The process of each socket.
    owners: HashMap<u32, u32>,
    watches: BTreeMap<u32, ProcessWatch>,
}

impl ProcessTable {
    /// Returns the sockets of the selected processes; `None` if the selector names no process.
    pub fn find_sockets(&mut self, selector: &FlowSelector) -> Option<HashSet<u32>> {
        let is_named = |process: &Process| match selector {
            FlowSelector::Process(pid) => process.pid().cast_unsigned() == *pid,
            FlowSelector::Program(name) => has_name(process, name),
            _ => false,
        };
        if !matches!(selector, FlowSelector::Process(_) | FlowSelector::Program(_)) {
            return None;
        }
        let mut sockets = HashSet::new();
        for process in select_with_children(list_processes().collect(), is_named) {
            for inode in list_socket_inodes(&process) {
                self.owners.insert(inode, process.pid().cast_unsigned());
                sockets.insert(inode);
            }
        }
        Some(sockets)
    }

    /// Looks for the processes of these sockets.
    pub fn find_owners(&mut self, inodes: impl Iterator<Item = u32>) {
        let mut missing: HashSet<u32> =
            inodes.filter(|inode| *inode > 0 && !self.owners.contains_key(inode)).collect();
        for process in list_processes() {
            if missing.is_empty() {
                return;
            }
            for inode in list_socket_inodes(&process) {
                if missing.remove(&inode) {
                    self.owners.insert(inode, process.pid().cast_unsigned());
                }
            }
        }
    }

    /// Returns the process that holds a socket, and watches it from now on.
    pub fn owner_of(&mut self, inode: u32) -> Option<u32> {
        let pid = *self.owners.get(&inode)?;
        self.watches.entry(pid).or_insert_with(|| ProcessWatch::start(pid));
        Some(pid)
    }

    pub fn take_readings(&mut self) {
        for watch in self.watches.values_mut() {
            watch.take_reading();
        }
    }

    /// Returns the sums of the times of the thread that was the busiest in each interval.
    pub fn thread_times(&self, pid: Option<u32>) -> Option<ThreadTimes> {
        let watch = self.watches.get(&pid?)?;
        (watch.samples > 1).then_some(watch.busiest)
    }

    pub fn describe(&self, pid: u32) -> Option<(ProcessIdentity, ProcessActivity)> {
        let watch = self.watches.get(&pid)?;
        let (name, parent) = (watch.name.clone(), watch.parent.clone());
        Some((ProcessIdentity { pid, name, parent }, watch.describe_activity()))
    }
}

/// Returns the selected processes and those that they started: scp, rsync and sftp have an ssh that holds
/// the connection.
fn select_with_children(all: Vec<Process>, is_selected: impl Fn(&Process) -> bool) -> Vec<Process> {
    let parents: HashMap<i32, i32> =
        all.iter().filter_map(|it| Some((it.pid(), it.stat().ok()?.ppid))).collect();
    let named: HashSet<i32> = all.iter().filter(|it| is_selected(it)).map(Process::pid).collect();
    let is_descendant = |pid: i32| {
        let chain = std::iter::successors(Some(pid), |child| parents.get(child).copied());
        chain.take(MAX_GENERATIONS).any(|ancestor| named.contains(&ancestor))
    };
    all.into_iter().filter(|it| is_descendant(it.pid())).collect()
}

fn list_processes() -> impl Iterator<Item = Process> {
    procfs::process::all_processes().into_iter().flatten().flatten()
}

/// Returns true if a process of this name runs.
pub fn is_running(name: &str) -> bool {
    list_processes().any(|process| has_name(&process, name))
}

/// Returns true if the process has this name, or its program file does.
fn has_name(process: &Process, name: &str) -> bool {
    process.stat().is_ok_and(|stat| stat.comm == name)
        || process.exe().is_ok_and(|file| file.file_name().is_some_and(|it| it == name))
}

fn list_socket_inodes(process: &Process) -> impl Iterator<Item = u32> {
    let descriptors = process.fd().into_iter().flatten().flatten();
    descriptors.filter_map(|descriptor| match descriptor.target {
        FDTarget::Socket(inode) => u32::try_from(inode).ok(),
        _ => None,
    })
}

/// The readings of one process.
struct ProcessWatch {
    pid: u32,
    name: String,
    parent: Option<String>,
    started: Instant,
    quota: Option<ControlGroupQuota>,
    throttled_us: Option<u64>,
    disk_bytes: Option<[u64; 2]>,
    pressure: ControlGroupPressure,
    stalls: GroupStalls,
    /// The time for which each thread had waited for block devices when it was first seen, and its growth.
    first_disk_wait_us: HashMap<i32, u64>,
    disk_wait_us: u64,
    threads: HashMap<i32, ThreadTimes>,
    /// CPU time of each thread since the start.
    thread_cpu_us: HashMap<i32, u64>,
    busiest: ThreadTimes,
    samples: u32,
    disk_wait_samples: u32,
}

impl ProcessWatch {
    fn start(pid: u32) -> ProcessWatch {
        let process = Process::new(pid.cast_signed()).ok();
        let stat = process.as_ref().and_then(|it| it.stat().ok());
        let name = |comm: &str| sanitize_line(comm, MAX_NAME_CHARS);
        let parent = stat.as_ref().and_then(|it| Process::new(it.ppid).ok()?.stat().ok());
        let parent = parent.map(|it| name(&it.comm));
        let quota = process.as_ref().and_then(ControlGroupQuota::of);
        let pressure = process.as_ref().map(ControlGroupPressure::of).unwrap_or_default();
        ProcessWatch {
            pid,
            name: stat.map(|it| name(&it.comm)).unwrap_or_default(),
            parent: parent.filter(|it| !STARTERS.contains(&it.as_str()) && !is_script(it)),
            started: Instant::now(),
            throttled_us: quota.as_ref().and_then(ControlGroupQuota::read_throttled_us),
            quota,
            disk_bytes: process.as_ref().and_then(read_disk_bytes),
            stalls: pressure.read_stalls(),
            pressure,
            first_disk_wait_us: HashMap::new(),
            disk_wait_us: 0,
            threads: HashMap::new(),
            thread_cpu_us: HashMap::new(),
            busiest: ThreadTimes::default(),
            samples: 0,
            disk_wait_samples: 0,
        }
    }

    /// Reads the times and states of all threads. A process that has ended keeps its last readings.
    fn take_reading(&mut self) {
        let Ok(tasks) = Process::new(self.pid.cast_signed()).and_then(|it| it.tasks()) else {
            return;
        };
        let (mut waits_for_disk, mut grown) = (false, ThreadTimes::default());
        for task in tasks.flatten().take(MAX_THREADS) {
            if let Ok(stat) = task.stat() {
                waits_for_disk |= stat.state == 'D';
                let ticks = stat.delayacct_blkio_ticks.unwrap_or(0);
                let waited_us = ticks.saturating_mul(1_000_000) / procfs::ticks_per_second().max(1);
                let first_us = *self.first_disk_wait_us.entry(task.tid).or_insert(waited_us);
                self.disk_wait_us = self.disk_wait_us.max(waited_us.saturating_sub(first_us));
            }
            let Some(now) = read_thread_times(&task) else { continue };
            let Some(before) = self.threads.insert(task.tid, now) else { continue };
            let cpu_us = now.cpu_us.saturating_sub(before.cpu_us);
            *self.thread_cpu_us.entry(task.tid).or_default() += cpu_us;
            if cpu_us > grown.cpu_us {
                let core_wait_us = now.core_wait_us.saturating_sub(before.core_wait_us);
                grown = ThreadTimes { cpu_us, core_wait_us };
            }
        }
        self.busiest.cpu_us += grown.cpu_us;
        self.busiest.core_wait_us += grown.core_wait_us;
        self.samples += 1;
        self.disk_wait_samples += u32::from(waits_for_disk);
    }

    fn describe_activity(&self) -> ProcessActivity {
        let process = Process::new(self.pid.cast_signed()).ok();
        let disk = process.as_ref().and_then(read_disk_bytes).zip(self.disk_bytes);
        let grown = |index: usize| disk.map(|(now, base)| now[index].saturating_sub(base[index]));
        let throttled = self.quota.as_ref().and_then(ControlGroupQuota::read_throttled_us);
        let stalls = self.pressure.read_stalls();
        let grown_us = |now: Option<u64>, base: Option<u64>| Some(now?.saturating_sub(base?));
        ProcessActivity {
            elapsed_us: self.started.elapsed().as_micros() as u64,
            threads: self.threads.len() as u32,
            cpu_us: self.thread_cpu_us.values().sum(),
            busiest_thread_us: self.thread_cpu_us.values().copied().max().unwrap_or(0),
            samples: self.samples,
            disk_wait_samples: self.disk_wait_samples,
            disk_wait_us: Some(self.disk_wait_us).filter(|us| *us > 0),
            io_stall_us: grown_us(stalls.io_us, self.stalls.io_us),
            memory_stall_us: grown_us(stalls.memory_us, self.stalls.memory_us),
            disk_read_bytes: grown(0),
            disk_write_bytes: grown(1),
            throttled_us: grown_us(throttled, self.throttled_us),
            quota_core_permille: self.quota.as_ref().map(|quota| quota.millicores),
        }
    }
}

fn is_script(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|it| it == "sh")
}

fn read_thread_times(task: &Task) -> Option<ThreadTimes> {
    let stat = task.schedstat().ok()?;
    Some(ThreadTimes { cpu_us: stat.sum_exec_runtime / 1000, core_wait_us: stat.run_delay / 1000 })
}

/// Returns the bytes read from and written to block devices.
fn read_disk_bytes(process: &Process) -> Option<[u64; 2]> {
    let io = process.io().ok()?;
    Some([io.read_bytes, io.write_bytes])
}

/// The pressure files of the control group of a process, in the unified hierarchy.
#[derive(Default)]
struct ControlGroupPressure {
    folder: Option<PathBuf>,
}

/// The time in which some task of a control group waited, since the group exists.
#[derive(Default)]
struct GroupStalls {
    io_us: Option<u64>,
    memory_us: Option<u64>,
}

impl ControlGroupPressure {
    fn of(process: &Process) -> ControlGroupPressure {
        let groups = process.cgroups().map(|groups| groups.0).unwrap_or_default();
        let unified = groups.into_iter().find(|group| group.hierarchy == 0);
        let folder = unified.and_then(|group| {
            // Beside hierarchies of version 1, the unified one has a folder of its own.
            let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].into_iter();
            let mut folders =
                roots.map(|root| Path::new(root).join(group.pathname.trim_start_matches('/')));
            folders.find(|folder| folder.join("io.pressure").exists())
        });
        ControlGroupPressure { folder }
    }

    fn read_stalls(&self) -> GroupStalls {
        let file = |name: &str| self.folder.as_ref().map(|folder| folder.join(name));
        let io = file("io.pressure").and_then(|path| IoPressure::from_file(path).ok());
        let memory = file("memory.pressure").and_then(|path| MemoryPressure::from_file(path).ok());
        GroupStalls {
            io_us: io.map(|pressure| pressure.some.total),
            memory_us: memory.map(|pressure| pressure.some.total),
        }
    }
}

/// The smallest CPU quota of the control groups that contain a process.
struct ControlGroupQuota {
    folder: PathBuf,
    millicores: u64,
}

impl ControlGroupQuota {
    fn of(process: &Process) -> Option<ControlGroupQuota> {
        let groups = process.cgroups().ok()?;
        // The unified hierarchy has number 0; in cgroup v1 the controller has a hierarchy of its own.
        let quotas = groups.0.iter().filter_map(|group| {
            let is_cpu = group.controllers.iter().any(|name| name == "cpu");
            let root = Path::new(if is_cpu { "/sys/fs/cgroup/cpu" } else { "/sys/fs/cgroup" });
            let folder = root.join(group.pathname.trim_start_matches('/'));
            let levels = folder.ancestors().take_while(|it| it.starts_with(root));
            let levels = levels.filter_map(ControlGroupQuota::read);
            levels.filter(|_| is_cpu || group.hierarchy == 0).min_by_key(|it| it.millicores)
        });
        quotas.min_by_key(|quota| quota.millicores)
    }

    /// Reads the quota of one control group; `None` if it has none.
    fn read(folder: &Path) -> Option<ControlGroupQuota> {
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
        let limit = read("cpu.max").or_else(|| {
            let [quota, period] = ["cpu.cfs_quota_us", "cpu.cfs_period_us"].map(read);
            Some(format!("{} {}", quota?.trim(), period?.trim()))
        })?;
        let (quota, period) = limit.trim().split_once(' ')?;
        let millicores = quota.parse::<u64>().ok()?.saturating_mul(1000);
        let millicores = millicores.checked_div(period.parse().ok()?)?;
        Some(ControlGroupQuota { folder: folder.to_owned(), millicores })
    }

    fn read_throttled_us(&self) -> Option<u64> {
        let stat = std::fs::read_to_string(self.folder.join("cpu.stat")).ok()?;
        let find = |name: &str| {
            stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
        };
        find("throttled_usec").or_else(|| find("throttled_time").map(|ns| ns / 1000))
    }
}
