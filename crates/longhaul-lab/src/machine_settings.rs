//! The settings that a path needs from the machine. A difference from what it asks is a caveat.

use crate::lab_error::{LabError, LabErrorKind};
use crate::lab_privileges;
use crate::lab_runtime;
use crate::path_spec::PathSpec;
use crate::sysctl_guard::{self, SysctlGuard};
use std::collections::BTreeMap;

const CONGESTION_CONTROL: &str = "net.ipv4.tcp_congestion_control";
const AVAILABLE: &str = "net.ipv4.tcp_available_congestion_control";
const ALLOWED: &str = "net.ipv4.tcp_allowed_congestion_control";

/// Gives the machine the settings that the path asks of it, until the guard is dropped.
pub(crate) fn set_machine_sysctls(
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
        lab_runtime::read_sysctl(name).is_ok_and(|now| now == lab_runtime::normalize_spaces(value))
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
        let now = lab_runtime::read_sysctl(name).unwrap_or_else(|_| "not readable".to_owned());
        format!("{name} = {value} (is {now})")
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Allows the path's congestion controls while the hosts are created. A namespace can only be given
/// a congestion control that the machine allows to all users; it keeps it when the machine's list
/// is restored.
pub(crate) fn allow_congestion_controls(
    spec: &PathSpec,
    caveats: &mut Vec<String>,
) -> Option<SysctlGuard> {
    let words = |name| lab_runtime::read_sysctl(name).unwrap_or_default();
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
