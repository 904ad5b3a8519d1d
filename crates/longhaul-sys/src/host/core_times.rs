//! CPU time of each core, from `/proc/stat`, in ticks of 10 ms.

use std::io;
use std::time::Duration;

/// Time of one core since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CoreTimes {
    pub index: u32,
    /// User, system and interrupt time.
    pub busy: Duration,
    /// The part of it in software interrupts.
    pub softirq: Duration,
    /// Time that the hypervisor gave to other guests.
    pub steal: Duration,
}

/// Reads the times of every online core.
pub fn read_core_times() -> io::Result<Vec<CoreTimes>> {
    Ok(parse_core_times(&std::fs::read_to_string("/proc/stat")?))
}

/// Parses the lines of `/proc/stat` about single cores; skips all others.
pub fn parse_core_times(stat: &str) -> Vec<CoreTimes> {
    stat.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<CoreTimes> {
    let mut words = line.split_ascii_whitespace();
    let index = words.next()?.strip_prefix("cpu")?.parse().ok()?;
    let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, steal] = *ticks.first_chunk::<8>()?;
    let busy = [user, nice, system, irq, softirq].into_iter().fold(0_u64, u64::saturating_add);
    Some(CoreTimes {
        index,
        busy: ticks_to_duration(busy),
        softirq: ticks_to_duration(softirq),
        steal: ticks_to_duration(steal),
    })
}

/// Converts ticks; USER_HZ is 100 on every architecture that Linux supports.
fn ticks_to_duration(ticks: u64) -> Duration {
    Duration::from_millis(ticks.saturating_mul(10))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_sum_line_and_the_rest_are_passed_over() {
        let text = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu3 1 2 3 100 5 6 7 8 0 0\nintr 1 2 3\n";
        let expect = CoreTimes {
            index: 3,
            busy: Duration::from_millis(190),
            softirq: Duration::from_millis(70),
            steal: Duration::from_millis(80),
        };
        assert_eq!(parse_core_times(text), [expect]);
    }

    #[test]
    fn this_machine_has_a_core() {
        assert!(!read_core_times().expect("/proc/stat").is_empty());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_fail(text in "(cpu[0-9]{0,3}( [0-9]{0,22}){0,12}\n|.{0,40}\n){0,6}") {
            parse_core_times(&text);
        }
    }
}
