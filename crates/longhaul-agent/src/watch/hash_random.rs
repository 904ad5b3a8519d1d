//! Seeded pseudo-random numbers: the same words give the same number on every host and after every
//! start.

use longhaul_model::splitmix::mix_bits;

/// Returns a number derived from `seed` and `words`.
pub fn draw_number(seed: u64, words: &[u64]) -> u64 {
    words.iter().fold(mix_bits(seed), |state, word| mix_bits(state ^ mix_bits(*word)))
}

/// Returns a uniformly distributed number from 0 to `most`, inclusive.
pub fn draw_up_to(most: i64, seed: u64, words: &[u64]) -> i64 {
    let most = u64::try_from(most).unwrap_or(0);
    let share = u128::from(draw_number(seed, words)) * (u128::from(most) + 1);
    (share >> 64) as i64
}

/// Returns the FNV-1a hash of a text.
pub fn hash_text(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_even_and_repeat() {
        let drawn: Vec<i64> = (0..10_000).map(|k| draw_up_to(9, 7, &[k])).collect();
        for value in 0..10 {
            let times = drawn.iter().filter(|it| **it == value).count();
            assert!((850..1150).contains(&times), "{value}: {times}");
        }
        assert_eq!(draw_number(1, &[2, 3]), draw_number(1, &[2, 3]));
        assert_ne!(draw_number(1, &[2, 3]), draw_number(1, &[3, 2]));
        assert_eq!((draw_up_to(0, 1, &[1]), draw_up_to(-5, 1, &[1])), (0, 0));
    }
}
