//! Seeded randomness: the same seed gives the same path, packet by packet.

use longhaul_model::splitmix::{SplitMix64, mix_bits};

#[derive(Clone, Debug)]
pub(super) struct SeededRandom(SplitMix64);

impl SeededRandom {
    /// Creates an independent sequence for each `stream` of one seed.
    pub fn new(seed: u64, stream: u64) -> SeededRandom {
        SeededRandom(SplitMix64::new(mix_bits(seed ^ mix_bits(stream))))
    }

    /// Returns a sequence that is independent of later draws from this one.
    pub fn branch(&mut self) -> SeededRandom {
        SeededRandom::new(self.0.next_u64(), 0)
    }

    /// Draws a uniform value from [0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.0.unit()
    }

    /// Draws an exponential value with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.uniform()).ln()
    }

    /// Draws from a symmetric bell in [-1, 1]: the sum of three uniforms, centred and scaled.
    pub fn bell(&mut self) -> f64 {
        (self.uniform() + self.uniform() + self.uniform()) / 1.5 - 1.0
    }
}

/// Marks a share of a sequence of segments at random, by drawing the gaps between marks
/// (geometric) instead of one number per segment.
#[derive(Clone, Debug)]
pub(super) struct RandomMarks {
    share: f64,
    /// The number of segments before the next marked one.
    ahead: u64,
}

impl RandomMarks {
    /// Returns `None` if nothing is ever marked.
    pub fn new(share: f64, random: &mut SeededRandom) -> Option<RandomMarks> {
        (share > 0.0).then(|| {
            let mut marks = RandomMarks { share: share.min(1.0), ahead: 0 };
            marks.draw(random);
            marks
        })
    }

    fn draw(&mut self, random: &mut SeededRandom) {
        self.ahead = if self.share >= 1.0 {
            0
        } else {
            ((1.0 - random.uniform()).ln() / (-self.share).ln_1p()) as u64
        };
    }

    /// Returns how many of the next `count` segments precede the first marked one, or `None` if
    /// none of them is marked.
    pub fn next_within(&mut self, count: u16, random: &mut SeededRandom) -> Option<u16> {
        if self.ahead >= u64::from(count) {
            self.ahead -= u64::from(count);
            return None;
        }
        let before = self.ahead as u16;
        self.draw(random);
        Some(before)
    }
}
