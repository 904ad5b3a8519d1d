//! Processor configuration: cores, frequency governors, model.
//!
//! Source: sysfs `devices/system/cpu`, `/proc/cpuinfo`; the same in every namespace. Absent if the
//! machine lacks the feature: most virtual machines have no frequency control.

use super::read_kernel_file;
use std::fs;
use std::io;

const FOLDER: &str = "/sys/devices/system/cpu";

/// Returns the online cores.
pub fn online_cores() -> Vec<u32> {
    read_kernel_file(format!("{FOLDER}/online"))
        .map_or_else(Vec::new, |list| super::core_list::parse_core_list(&list))
}

fn governor_file(core: u32) -> String {
    format!("{FOLDER}/cpu{core}/cpufreq/scaling_governor")
}

/// Returns the frequency governor of each online core that has one, with the core's number.
///
/// # Errors
/// `NotFound` if no core has a governor.
pub fn read_governors() -> io::Result<Vec<(u32, String)>> {
    let found: Vec<(u32, String)> = online_cores()
        .into_iter()
        .filter_map(|core| Some((core, read_kernel_file(governor_file(core))?)))
        .collect();
    if found.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(found)
}

/// Sets the governor of one core.
///
/// # Errors
/// `PermissionDenied` without root, `InvalidInput` for a governor that the driver lacks.
pub fn set_governor(core: u32, governor: &str) -> io::Result<()> {
    fs::write(governor_file(core), governor)
}

/// Name of the processor, and whether it is virtual.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuModel {
    /// Absent on architectures without a model name.
    pub name: Option<String>,
    /// Absent on architectures without this flag.
    pub hypervisor: Option<bool>,
}

/// Reads the model of the first processor.
pub fn read_cpu_model() -> io::Result<CpuModel> {
    Ok(parse_cpu_model(&fs::read_to_string("/proc/cpuinfo")?))
}

/// Parses the first processor of `/proc/cpuinfo`.
pub fn parse_cpu_model(cpuinfo: &str) -> CpuModel {
    let value = |name: &str| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim())
        })
    };
    CpuModel {
        name: value("model name").map(str::to_owned),
        hypervisor: value("flags")
            .map(|flags| flags.split_ascii_whitespace().any(|f| f == "hypervisor")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hypervisor_is_known_by_its_flag() {
        let text = "processor\t: 0\nmodel name\t: A CPU @ 2.60GHz\nflags\t\t: fpu hypervisor lm\n";
        let model = parse_cpu_model(text);
        assert_eq!(model.name.as_deref(), Some("A CPU @ 2.60GHz"));
        assert_eq!(model.hypervisor, Some(true));
        let bare = parse_cpu_model("flags : fpu lm\n");
        assert_eq!(bare, CpuModel { name: None, hypervisor: Some(false) });
        assert_eq!(parse_cpu_model("Features : fp asimd\n"), CpuModel::default());
    }

    #[test]
    fn this_machine_has_cores_online() {
        assert!(online_cores().contains(&0));
    }
}
