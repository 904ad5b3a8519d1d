//! Reads the settings of the machine and its network namespace that do not depend on the interface.

use super::SYSCTLS;
use super::readings_builder::{ReadingsBuilder, error_text, switch_text};
use longhaul_sys::host::{self, clock_source, cpu_config, pci, softnet_stats, sysctl_values};
use std::io;

/// Reads everything except routes, interfaces and live sockets.
pub(super) fn read_machine(notes: &mut ReadingsBuilder) {
    read_sysctls(notes);
    let memory = host::memory_bytes();
    notes.put_or_missing("memory.total", memory, "/proc/meminfo does not contain it");
    read_processors(notes);
    read_clocks(notes);
    read_softnet(notes);
    let kinds = pci::iommu_kinds().map(|kinds| match kinds.as_slice() {
        [] => "off".to_owned(),
        kinds => kinds.join(" "),
    });
    notes.put_or_missing("iommu", kinds, "the kernel lists no IOMMU groups");
}

fn read_sysctls(notes: &mut ReadingsBuilder) {
    for name in SYSCTLS {
        match sysctl_values::read_setting_exact(name) {
            Ok(value) => notes.put(name, value),
            // Unknown to this kernel, or hidden in this namespace; the audit does not need it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => notes.missing(name, error_text(&error)),
        }
    }
}

fn read_processors(notes: &mut ReadingsBuilder) {
    notes.put("cpu.online", cpu_config::online_cores().len());
    if let Some(model) = notes.check("cpu.model", cpu_config::read_cpu_model()) {
        notes.put_optional("cpu.model", model.name);
        notes.put_optional("cpu.hypervisor", model.hypervisor.map(switch_text));
    }
    let governors = cpu_config::read_governors().ok().map(|all| format_governors(&all));
    let why = "no core has a frequency governor, as usual for virtual machines";
    notes.put_or_missing("cpu.governor", governors, why);
    let cpu = |file: &str| host::read_kernel_file(format!("/sys/devices/system/cpu/{file}"));
    notes.put_optional("cpu.governors", cpu("cpu0/cpufreq/scaling_available_governors"));
    let why = "no idle driver is in use";
    notes.put_or_missing("cpu.idle_driver", cpu("cpuidle/current_driver"), why);
    let idle_governor =
        cpu("cpuidle/current_governor").or_else(|| cpu("cpuidle/current_governor_ro"));
    notes.put_or_missing("cpu.idle_governor", idle_governor, why);
    notes.put_or_missing("cpu.smt", cpu("smt/control"), "the kernel does not report it");
}

/// Returns one word if all cores agree, otherwise one per core, in their order.
pub(super) fn format_governors(governors: &[(u32, String)]) -> String {
    let words: Vec<&str> = governors.iter().map(|(_, word)| word.as_str()).collect();
    match words.first() {
        Some(first) if words.iter().all(|word| word == first) => (*first).to_owned(),
        _ => words.join(" "),
    }
}

fn read_clocks(notes: &mut ReadingsBuilder) {
    let clock = |file: &str| {
        host::read_kernel_file(format!("/sys/devices/system/clocksource/clocksource0/{file}"))
    };
    let why = "the kernel does not report it";
    notes.put_or_missing("clock.source", clock("current_clocksource"), why);
    notes.put_optional("clock.sources", clock("available_clocksource"));
    let synchronised = clock_source::is_synchronised().map(switch_text);
    notes.put_result("clock.synchronised", synchronised);
}

fn read_softnet(notes: &mut ReadingsBuilder) {
    match softnet_stats::read_softnet_stat() {
        Ok(sums) => {
            notes.put("softnet.dropped", sums.dropped_packets);
            notes.put("softnet.processed", sums.processed_packets);
            notes.put("softnet.squeezed", sums.squeezed);
        }
        Err(error) => {
            for name in ["softnet.dropped", "softnet.processed", "softnet.squeezed"] {
                notes.missing(name, error_text(&error));
            }
        }
    }
}

/// Reads whether connections are tracked here. `live`: a connection of this namespace is currently
/// open, which a tracker would count.
pub(super) fn read_conntrack(notes: &mut ReadingsBuilder, live: bool) {
    let Some(count) = sysctl_values::read_number("net.netfilter.nf_conntrack_count") else {
        notes.put("conntrack", "off");
        return;
    };
    notes.put("conntrack.count", count);
    notes.put_optional(
        "conntrack.max",
        sysctl_values::read_number("net.netfilter.nf_conntrack_max"),
    );
    if count > 0 || live {
        notes.put("conntrack", switch_text(count > 0));
    } else {
        let why = "cannot open a connection here to check whether it is tracked";
        notes.missing("conntrack", why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn governors_are_one_word_where_all_agree() {
        let of = |words: &[&str]| {
            let cores = words.iter().map(|word| (*word).to_owned());
            format_governors(&(0..).zip(cores).collect::<Vec<_>>())
        };
        assert_eq!(of(&["performance", "performance"]), "performance");
        assert_eq!(of(&["performance", "powersave"]), "performance powersave");
    }
}
