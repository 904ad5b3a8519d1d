//! The mode of a sample: its most frequent value.
//!
//! Source: none. Units: those of the values. Error: none. Wrong when: several values are as frequent;
//! then the latest counts.

/// Returns the most frequent of these values, which are in the order of time; of equals, the latest.
pub fn find_mode<T: Copy + PartialEq>(values: &[T]) -> Option<T> {
    let times = |of: &T| values.iter().filter(|value| *value == of).count();
    values.iter().copied().max_by_key(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_of_equals_counts() {
        assert_eq!(find_mode(&[1, 2, 2, 1, 3]), Some(1));
        assert_eq!(find_mode::<u8>(&[]), None);
    }
}
