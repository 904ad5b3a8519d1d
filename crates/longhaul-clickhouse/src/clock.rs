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
    with_state(state, earliness())
}

fn with_state(state: u8, earliness: u64) -> u64 {
    u64::from(state) * END + earliness
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_outweighs_any_time_and_the_first_of_a_state_stays() {
        let (first, last) = (END - 1, 0);
        assert!(with_state(1, last) < with_state(1, first));
        assert!(with_state(0, first) < with_state(1, last));
        assert!(with_state(1, first) < with_state(2, last));
        assert!(earliness() < END && earliness() > END / 2);
    }
}
