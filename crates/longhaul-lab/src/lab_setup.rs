//! Sets up everything that a path needs from the machine, and undoes it in reverse order.
//!
//! Steps that need a process with one thread come first (user namespace, guards), then the hosts
//! and the engine.

use crate::lab_error::{LabError, LabErrorKind};
use crate::lab_privileges;
use crate::lab_runtime::{
    LabBackend, LabReading, RunningLab, find_timing_caveat, namespace_sysctl,
};
use crate::path_spec::PathSpec;
use crate::sysctl_guard::{self, SysctlGuard};
use crate::truth_file;
use serde_json::Value;
use std::collections::BTreeMap;

const CONGESTION_CONTROL: &str = "net.ipv4.tcp_congestion_control";
const AVAILABLE: &str = "net.ipv4.tcp_available_congestion_control";
const ALLOWED: &str = "net.ipv4.tcp_allowed_congestion_control";

/// A path that has been set up, with the machine's settings for it. Fields are dropped in this
/// order.
pub(crate) struct GuardedLab {
    pub lab: RunningLab,
    /// A child that must outlive all others.
    pub machine: Option<SysctlGuard>,
    /// Differences from the requested setup.
    pub caveats: Vec<String>,
}

impl GuardedLab {
    /// Sets up the path. The process must have only one thread.
    pub(crate) fn new(
        spec: &PathSpec,
        backend: Option<LabBackend>,
    ) -> Result<GuardedLab, LabError> {
        let mut caveats = Vec::new();
        let machine = set_machine_sysctls(spec, &mut caveats)?;
        let congestion = allow_congestion_controls(spec, &mut caveats);
        lab_privileges::acquire_privileges()?;
        let mut lab = RunningLab::set_up(spec, backend)?;
        drop(congestion);
        caveats.append(&mut lab.caveats);
        Ok(GuardedLab { lab, machine, caveats })
    }

    /// Returns the truth file of the path, which is in the state `reading`.
    pub(crate) fn build_truth(&self, spec: &PathSpec, reading: &LabReading) -> Value {
        let mut caveats = self.caveats.clone();
        caveats.extend(find_timing_caveat(reading));
        truth_file::build_truth(spec, self.lab.backend, reading, &caveats)
    }
}

fn set_machine_sysctls(
    spec: &PathSpec,
    caveats: &mut Vec<String>,
) -> Result<Option<SysctlGuard>, LabError> {
    let wanted = &spec.machine.sysctl;
    if wanted.is_empty() {
        return Ok(None);
    }
    if lab_privileges::is_machine_root() {
        return match SysctlGuard::acquire(sysctl_guard::MACHINE, wanted) {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if spec.machine.required => Err(error),
            Err(error) => {
                caveats.push(format!("{error}: {}", format_missing_sysctls(wanted)));
                Ok(None)
            }
        };
    }
    let is_set = |(name, value): (&String, &String)| {
        namespace_sysctl::read_sysctl(name)
            .is_ok_and(|now| now == namespace_sysctl::normalize_spaces(value))
    };
    if wanted.iter().all(is_set) {
        return Ok(None);
    }
    if spec.machine.required {
        let tried =
            format!("cannot set up path {} without {}", spec.key, format_missing_sysctls(wanted));
        return Err(LabError::new(LabErrorKind::Unavailable, tried)
            .hint("run as root: these settings apply to the whole machine and last for the run"));
    }
    caveats.push(format!(
        "not root; the machine keeps its own values: {}",
        format_missing_sysctls(wanted)
    ));
    Ok(None)
}

/// Formats the missing settings: `net.core.rmem_max = 65536 (is 4194304)`.
fn format_missing_sysctls(wanted: &BTreeMap<String, String>) -> String {
    let each = wanted.iter().map(|(name, value)| {
        let now = namespace_sysctl::read_sysctl(name).unwrap_or_else(|_| "not readable".to_owned());
        format!("{name} = {value} (is {now})")
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Allows the path's congestion controls while the hosts are created. A namespace can only be given
/// a congestion control that the machine allows to all users; it keeps it when the machine's list
/// is restored.
fn allow_congestion_controls(spec: &PathSpec, caveats: &mut Vec<String>) -> Option<SysctlGuard> {
    let words = |name| namespace_sysctl::read_sysctl(name).unwrap_or_default();
    let (available, allowed) = (words(AVAILABLE), words(ALLOWED));
    let has = |list: &str, wanted: &str| list.split(' ').any(|word| word == wanted);
    let hosts = [&spec.near, &spec.far];
    let mut list = allowed.clone();
    for wanted in hosts.iter().filter_map(|host| host.sysctl.get(CONGESTION_CONTROL)) {
        if !has(&list, wanted) && has(&available, wanted) {
            list = format!("{list} {wanted}");
        }
    }
    if list == allowed || !lab_privileges::is_machine_root() {
        return None;
    }
    let settings = BTreeMap::from([(ALLOWED.to_owned(), list)]);
    // Without a guard the hosts keep the machine's default, and setting them reports it.
    SysctlGuard::acquire(sysctl_guard::CONGESTION_CONTROL, &settings)
        .map_err(|error| caveats.push(error.to_string()))
        .ok()
}
