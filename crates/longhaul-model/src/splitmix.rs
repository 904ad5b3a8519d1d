//! The random number generator of the workspace: SplitMix64 (Steele, Lea, Flood 2014).
//!
//! A generator of our own, so that no update of a library changes a drawn series, plan or lab path.

/// The increment of the state: 2^64 divided by the golden ratio.
pub const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns a hash of `value`: every input bit affects every output bit. The numbers of a generator
/// are the hashes of its states.
pub fn mix_bits(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(INCREMENT);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A SplitMix64 generator; the same seed always gives the same numbers.
#[derive(Debug, Clone)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    pub const fn new(seed: u64) -> SplitMix64 {
        SplitMix64 { state: seed }
    }

    pub fn next_u64(&mut self) -> u64 {
        let drawn = mix_bits(self.state);
        self.state = self.state.wrapping_add(INCREMENT);
        drawn
    }

    /// Draws uniformly from `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Draws uniformly from `low..high`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Draws uniformly from `0..count`.
    pub fn below(&mut self, count: usize) -> usize {
        (self.next_u64() % count.max(1) as u64) as usize
    }

    /// Puts the list into a random order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last + 1));
        }
    }

    /// Draws from a standard normal distribution, approximated by the sum of twelve uniform values.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}
