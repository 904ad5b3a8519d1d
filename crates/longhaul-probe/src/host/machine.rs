//! Reads the settings of the machine and its network namespace that do not depend on the interface.

use super::SYSCTLS;
use super::notes::{Notes, reason};
use longhaul_sys::host::{self, clock, cpu, pci, softnet, sysctl};
use std::io;

/// Reads everything except routes, interfaces and live sockets.
pub(super) fn read(notes: &mut Notes) {
    sysctls(notes);
    let memory = host::memory_bytes();
    notes.expected("memory.total", memory, "/proc/meminfo does not tell");
    processors(notes);
    clocks(notes);
    drops(notes);
    let kinds = pci::iommu_kinds().map(|kinds| match kinds.as_slice() {
        [] => "off".to_owned(),
        kinds => kinds.join(" "),
    });
    notes.expected("iommu", kinds, "the kernel lists no IOMMU groups");
}

fn sysctls(notes: &mut Notes) {
    for name in SYSCTLS {
        match sysctl::read_exactly(name) {
            Ok(value) => notes.put(name, value),
            // Unknown to this kernel, or hidden in this namespace; the audit does not need it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => notes.missing(name, reason(&error)),
        }
    }
}

fn processors(notes: &mut Notes) {
    notes.put("cpu.online", cpu::online().len());
    notes.take(&["cpu.model"], cpu::model(), |notes, model| {
        notes.optional("cpu.model", model.name);
        if let Some(virtual_machine) = model.hypervisor {
            notes.switch("cpu.hypervisor", virtual_machine);
        }
    });
    match cpu::governors() {
        Ok(governors) => notes.put("cpu.governor", governors_text(&governors)),
        Err(_) => notes.missing(
            "cpu.governor",
            "no core has a frequency governor, as in most virtual machines",
        ),
    }
    notes.optional("cpu.governors", cpu::available_governors());
    let why = "no idle driver is in use";
    notes.expected("cpu.idle_driver", cpu::idle_driver(), why);
    notes.expected("cpu.idle_governor", cpu::idle_governor(), why);
    notes.expected("cpu.smt", cpu::smt(), "the kernel does not tell");
}

/// Returns one word if all cores agree, otherwise one per core, in their order.
pub(super) fn governors_text(governors: &[(u32, String)]) -> String {
    let words: Vec<&str> = governors.iter().map(|(_, word)| word.as_str()).collect();
    match words.first() {
        Some(first) if words.iter().all(|word| word == first) => (*first).to_owned(),
        _ => words.join(" "),
    }
}

fn clocks(notes: &mut Notes) {
    let why = "the kernel does not tell";
    notes.expected("clock.source", clock::source(), why);
    notes.optional("clock.sources", clock::available_sources());
    notes.take(
        &["clock.synchronised"],
        clock::is_synchronised(),
        |notes, yes| {
            notes.switch("clock.synchronised", yes);
        },
    );
}

fn drops(notes: &mut Notes) {
    let names = ["softnet.dropped", "softnet.processed", "softnet.squeezed"];
    notes.take(&names, softnet::read(), |notes, sums| {
        notes.put("softnet.dropped", sums.dropped_packets);
        notes.put("softnet.processed", sums.processed_packets);
        notes.put("softnet.squeezed", sums.squeezed);
    });
}

/// Reads whether connections are tracked here. `live`: a connection of this namespace is currently
/// open, which a tracker would count.
pub(super) fn tracking(notes: &mut Notes, live: bool) {
    let Some(count) = sysctl::number("net.netfilter.nf_conntrack_count") else {
        notes.put("conntrack", "off");
        return;
    };
    notes.put("conntrack.count", count);
    notes.optional(
        "conntrack.max",
        sysctl::number("net.netfilter.nf_conntrack_max"),
    );
    if count > 0 || live {
        notes.switch("conntrack", count > 0);
    } else {
        let why = "no connection could be made here to see whether it is tracked";
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
            governors_text(&(0..).zip(cores).collect::<Vec<_>>())
        };
        assert_eq!(of(&["performance", "performance"]), "performance");
        assert_eq!(of(&["performance", "powersave"]), "performance powersave");
    }
}
