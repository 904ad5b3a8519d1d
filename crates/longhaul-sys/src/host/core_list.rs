//! Core lists in the kernel's format: `0-3,8`.

/// The maximum number of cores of any kernel configuration.
const MAX_CORES: u32 = 8192;

/// Parses a list to ascending cores; skips items that are no numbers.
pub fn parse_core_list(list: &str) -> Vec<u32> {
    let mut cores: Vec<u32> = list
        .trim()
        .split(',')
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: u32 = first.parse().ok()?;
            let last: u32 = last.parse().ok()?;
            Some(first..=last.min(MAX_CORES))
        })
        .flatten()
        .collect();
    cores.sort_unstable();
    cores.dedup();
    cores
}

/// Formats ascending cores as the kernel would.
pub fn format_core_list(cores: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &core in cores {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(core) => *last = core,
            _ => ranges.push((core, core)),
        }
    }
    let words: Vec<String> = ranges
        .into_iter()
        .map(
            |(first, last)| {
                if first == last { first.to_string() } else { format!("{first}-{last}") }
            },
        )
        .collect();
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_and_single_cores_are_told_apart() {
        assert_eq!(parse_core_list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(parse_core_list("5"), [5]);
        assert_eq!(parse_core_list("\n"), [0; 0]);
        assert_eq!(parse_core_list("x,2-y,3-1,4"), [4]);
        assert_eq!(format_core_list(&[0, 1, 2, 3, 8]), "0-3,8");
        assert_eq!(format_core_list(&[]), "");
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(cores in proptest::collection::btree_set(0..MAX_CORES, 0..40)) {
            let cores: Vec<u32> = cores.into_iter().collect();
            prop_assert_eq!(parse_core_list(&format_core_list(&cores)), cores);
        }

        #[test]
        fn no_list_takes_more_than_its_bound(list in "([0-9]{1,10}-[0-9]{1,10},){0,3}") {
            prop_assert!(parse_core_list(&list).len() <= MAX_CORES as usize + 1);
        }
    }
}
