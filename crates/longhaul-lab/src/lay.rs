//! Sets up everything that a path needs from the machine, and undoes it in reverse order.
//!
//! Steps that need a process with one thread come first (user namespace, guards), then the hosts
//! and the engine.

use crate::authority;
use crate::error::{LabError, LabErrorKind};
use crate::guard::{Guard, Guarded};
use crate::runtime::{Backend, Lab, sysctl};
use crate::spec::PathSpec;
use std::collections::BTreeMap;

const CONGESTION_CONTROL: &str = "net.ipv4.tcp_congestion_control";
const AVAILABLE: &str = "net.ipv4.tcp_available_congestion_control";
const ALLOWED: &str = "net.ipv4.tcp_allowed_congestion_control";

/// A path that has been set up, with the machine's settings for it. Fields are dropped in this
/// order.
pub(crate) struct Laid {
    pub lab: Lab,
    machine: Option<Guard>,
    /// Differences from the requested setup.
    pub caveats: Vec<String>,
}

impl Laid {
    /// Sets up the path. The process must have only one thread.
    pub(crate) fn new(
        spec: &PathSpec,
        backend: Option<Backend>,
        dispersion: bool,
    ) -> Result<Laid, LabError> {
        let backend = match backend {
            Some(backend) => Some(backend),
            None => Backend::from_environment()?,
        };
        let mut caveats = Vec::new();
        let machine = set_machine(spec, &mut caveats)?;
        let congestion = allow_congestion_controls(spec, &mut caveats);
        authority::take()?;
        let mut lab = Lab::lay(spec, backend, dispersion)?;
        drop(congestion);
        caveats.append(&mut lab.caveats);
        Ok(Laid {
            lab,
            machine,
            caveats,
        })
    }

    /// Returns the pid of the guard, a child that must outlive all others.
    pub(crate) fn guard_pid(&self) -> Option<u32> {
        self.machine.as_ref().map(|guard| guard.pid)
    }
}

fn set_machine(spec: &PathSpec, caveats: &mut Vec<String>) -> Result<Option<Guard>, LabError> {
    let wanted = &spec.machine.sysctl;
    if wanted.is_empty() {
        return Ok(None);
    }
    if authority::owns_the_machine() {
        return match Guard::hold(Guarded::Machine, wanted) {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if spec.machine.required => Err(error),
            Err(error) => {
                caveats.push(format!("{error}: {}", missing(wanted)));
                Ok(None)
            }
        };
    }
    let is_set = |(name, value): (&String, &String)| {
        sysctl::read(name).is_ok_and(|now| now == sysctl::spaced(value))
    };
    if wanted.iter().all(is_set) {
        return Ok(None);
    }
    if spec.machine.required {
        let tried = format!(
            "path {} is not what it says without {}",
            spec.key,
            missing(wanted)
        );
        return Err(LabError::new(LabErrorKind::Unavailable, tried).hint(
            "these are settings of the whole machine: run as root, who may set them for the run",
        ));
    }
    caveats.push(format!(
        "not root, so the machine keeps its own values: {}",
        missing(wanted)
    ));
    Ok(None)
}

/// Formats the missing settings: `net.core.rmem_max = 65536 (is 4194304)`.
fn missing(wanted: &BTreeMap<String, String>) -> String {
    let each = wanted.iter().map(|(name, value)| {
        let now = sysctl::read(name).unwrap_or_else(|_| "not readable".to_owned());
        format!("{name} = {value} (is {now})")
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Allows the path's congestion controls while the hosts are created. A namespace can only be given
/// a congestion control that the machine allows to all users; it keeps it when the machine's list
/// is restored.
fn allow_congestion_controls(spec: &PathSpec, caveats: &mut Vec<String>) -> Option<Guard> {
    let words = |name| sysctl::read(name).unwrap_or_default();
    let (available, allowed) = (words(AVAILABLE), words(ALLOWED));
    let has = |list: &str, wanted: &str| list.split(' ').any(|word| word == wanted);
    let hosts = [&spec.near, &spec.far];
    let mut list = allowed.clone();
    for wanted in hosts
        .iter()
        .filter_map(|host| host.sysctl.get(CONGESTION_CONTROL))
    {
        if !has(&list, wanted) && has(&available, wanted) {
            list = format!("{list} {wanted}");
        }
    }
    if list == allowed || !authority::owns_the_machine() {
        return None;
    }
    let settings = BTreeMap::from([(ALLOWED.to_owned(), list)]);
    // Without a guard the hosts keep the machine's default, and setting them reports it.
    Guard::hold(Guarded::CongestionControl, &settings)
        .map_err(|error| caveats.push(error.to_string()))
        .ok()
}
