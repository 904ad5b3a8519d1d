//! Cores that serve a device's interrupts.
//!
//! Source: `/proc/interrupts`, `/proc/irq/N/{effective,smp}_affinity_list`; of the whole machine.
//! Wrong when: a virtual device has no interrupts of its own; the counts are since boot, and say
//! little about an affinity that was changed an hour ago.

use std::collections::BTreeMap;
use std::{fs, io};

/// A line of `/proc/interrupts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterruptLine {
    /// Interrupts served since boot, by core.
    pub counts: BTreeMap<u32, u64>,
    /// Chip, trigger, and names of the handlers.
    pub names: String,
}

/// Reads the numbered interrupts of this machine.
pub fn read_proc_interrupts() -> io::Result<BTreeMap<u32, InterruptLine>> {
    Ok(parse_proc_interrupts(&fs::read_to_string("/proc/interrupts")?))
}

/// Parses a heading with the cores, then a line per interrupt. Skips unnumbered interrupts (the
/// processor's own) and malformed lines.
pub fn parse_proc_interrupts(text: &str) -> BTreeMap<u32, InterruptLine> {
    let mut lines = text.lines();
    let cores: Vec<u32> = lines
        .next()
        .unwrap_or_default()
        .split_ascii_whitespace()
        .map_while(|word| word.strip_prefix("CPU")?.parse().ok())
        .collect();
    lines.filter_map(|line| parse_line(line, &cores)).collect()
}

fn parse_line(line: &str, cores: &[u32]) -> Option<(u32, InterruptLine)> {
    let (number, rest) = line.split_once(':')?;
    let number = number.trim().parse().ok()?;
    let mut words = rest.split_ascii_whitespace();
    let mut counts = BTreeMap::new();
    for &core in cores {
        counts.insert(core, words.next()?.parse().ok()?);
    }
    let names = words.collect::<Vec<_>>().join(" ");
    Some((number, InterruptLine { counts, names }))
}

/// Finds the interrupts whose names contain `interface`: `eth0`, `eth0-TxRx-3`, `mlx5@eth0`.
pub fn find_interface_interrupts(
    lines: &BTreeMap<u32, InterruptLine>,
    interface: &str,
) -> Vec<u32> {
    let named = |line: &InterruptLine| {
        let mut words = line.names.split([' ', ',', '-', '@', ':']);
        words.any(|word| word == interface)
    };
    lines.iter().filter(|(_, line)| named(line)).map(|(&number, _)| number).collect()
}

/// Returns the cores that an interrupt is delivered to: the effective ones, or the permitted ones
/// if the kernel does not report those.
pub fn interrupt_cores(number: u32) -> Option<Vec<u32>> {
    let read = |file: &str| {
        let text = fs::read_to_string(format!("/proc/irq/{number}/{file}")).ok()?;
        let cores = super::parse_core_list(&text);
        (!cores.is_empty()).then_some(cores)
    };
    read("effective_affinity_list").or_else(|| read("smp_affinity_list"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "           CPU0       CPU2
 24:          1          0  IO-APIC   5-edge      ACPI:Ged
 38:          7       3156 PCI-MSIX-0000:00:03.0   1-edge      eth0-TxRx-0
 39:          2          0 PCI-MSIX-0000:00:03.0   2-edge      mlx5_comp1@eth0
 40:          2          0 PCI-MSIX-0000:00:04.0   2-edge      eth01-TxRx-0
LOC:     118909     123535   Local timer interrupts
ERR:          0
 41:          2
";

    #[test]
    fn counts_stand_under_their_cores() {
        let lines = parse_proc_interrupts(TEXT);
        assert_eq!(lines.keys().copied().collect::<Vec<_>>(), [24, 38, 39, 40]);
        assert_eq!(lines[&38].counts, BTreeMap::from([(0, 7), (2, 3156)]));
    }

    #[test]
    fn an_interface_has_the_interrupts_of_its_name_and_no_others() {
        let lines = parse_proc_interrupts(TEXT);
        assert_eq!(find_interface_interrupts(&lines, "eth0"), [38, 39]);
        assert_eq!(find_interface_interrupts(&lines, "eth01"), [40]);
        assert!(find_interface_interrupts(&lines, "eth").is_empty());
    }

    #[test]
    fn this_machine_has_interrupts() {
        read_proc_interrupts().expect("/proc/interrupts");
        assert_eq!(interrupt_cores(u32::MAX), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_fail(text in "( *CPU[0-9]{0,2}){0,3}\n([ 0-9A-Z]{0,4}:( [0-9]{0,22}){0,4}.{0,9}\n){0,4}") {
            parse_proc_interrupts(&text);
        }
    }
}
