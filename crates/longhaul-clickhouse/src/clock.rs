//! The order in which rows were written, as numbers.

use std::time::{SystemTime, UNIX_EPOCH};

/// Above every microsecond that a clock says in our time, and below what a state adds.
const END: u64 = 1 << 60;

/// Microseconds since 1970 by this machine's clock.
pub fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let us = since.map_or(0, |since| since.as_micros());
    u64::try_from(us).unwrap_or(END - 1).min(END - 1)
}

/// Less for what is written later: a table that keeps the greatest keeps the first.
pub fn earliness() -> u64 {
    END - 1 - now_us()
}

/// Where a planned run stands: a later state is above an earlier one, and within a state the
/// first stays.
pub fn standing(state: u8) -> u64 {
    u64::from(state) * END + earliness()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_outweighs_any_time_and_the_first_of_a_state_stays() {
        let first = standing(1);
        let second = (0..).map(|_| standing(1)).find(|it| *it != first);
        assert!(second.is_some_and(|second| second < first));
        assert!(standing(0) < first && first < standing(2));
        assert!(standing(3).checked_add(END).is_some());
    }
}
