//! Judges the congestion windows at which losses come: random losses come at any.
//!
//! Source: Bahadur and Rao 1960 for the mean, a bound of Chernoff for the scatter, Fisher's method for both;
//! our simulations of Reno and CUBIC ([`RANDOM_WINDOW_SCATTER`]). Units: probabilities.
//! Error: probabilities below 5 % come up to twice as often as they say, because windows depend on the
//! losses before. Wrong when: something else than losses limits the windows.

use super::loss_response::RANDOM_WINDOW_SCATTER;
use super::loss_slots::{LossSlot, LossSlotTuning, build_slots, list_loss_episodes};
use super::run_reading::RunView;
use crate::stats::mean_and_deviation;
use crate::stats::sample_mean_tail::{WeightedValue, compute_mean_tail};

/// The parameters of the windows at losses.
pub(super) struct LossWindowTuning;

impl LossWindowTuning {
    /// Below this probability, random loss is doubted, and a policer that has another sign is certain.
    pub const MIN_RANDOM_CHANCE: f64 = 0.05;
    /// Windows are capped if this share of the bytes was sent at windows of at least this ratio to the largest.
    const CAPPED_SHARE: f64 = 0.3;
    const CAP_RATIO: f64 = 0.97;
    /// The minimum number of loss episodes for that probability.
    const MIN_EPISODES: usize = 3;
}

/// Returns true if random losses hardly come at the windows of this run: they may be those of a bucket or a
/// queue of a few packets.
pub fn has_unlikely_windows(run: &RunView) -> bool {
    estimate_random_chance(&build_slots(run), run.streams.len())
        .is_some_and(|chance| chance < LossWindowTuning::MIN_RANDOM_CHANCE)
}

/// Returns the probability that random losses come at windows as large and as alike as those of the losses;
/// `None` with few of them. A random loss hits each segment with the same chance, so the windows at the
/// first losses of all episodes are drawn from all windows by their segments.
pub(super) fn estimate_random_chance(slots: &[LossSlot], streams: usize) -> Option<f64> {
    let (mut windows, mut first_losses) = (Vec::new(), Vec::new());
    let mut calm_from = 0;
    let mut episodes = list_loss_episodes(slots).into_iter().peekable();
    for (number, slot) in slots.iter().enumerate() {
        let first = episodes.next_if(|episode| episode.start == number);
        let value = slot.window_bytes;
        if number >= calm_from && !slot.queued && value > 0.0 {
            // What was lost had been sent, too.
            let weight = slot.bytes + slot.lost * LossSlotTuning::USUAL_MSS as f64;
            windows.push(WeightedValue { value, weight });
            first_losses.extend(first.as_ref().map(|_| value));
        }
        calm_from = first.map_or(calm_from, |episode| episode.end);
    }
    let count = first_losses.len();
    let (mean, deviation) = mean_and_deviation(&first_losses)?;
    let large = (count >= LossWindowTuning::MIN_EPISODES)
        .then(|| compute_mean_tail(&windows, count, mean))?;
    // A window is known to a segment of each stream, and those of several streams even each other out.
    let streams = (streams as f64).sqrt();
    let scatter = deviation.hypot(streams * LossSlotTuning::USUAL_MSS as f64) / mean;
    let is_free = !are_windows_capped(&windows);
    let alike = if is_free { estimate_alike_chance(count, scatter * streams) } else { 1.0 };
    // Fisher's method for two independent probabilities.
    let both = large * alike;
    Some(both * (1.0 - both.ln()))
}

/// Returns true if the windows are mostly as large as they become: something else than losses limits them.
fn are_windows_capped(windows: &[WeightedValue]) -> bool {
    let max = windows.iter().map(|it| it.value).fold(0.0, f64::max);
    let capped = windows.iter().filter(|it| it.value >= LossWindowTuning::CAP_RATIO * max);
    let weight: f64 = windows.iter().map(|it| it.weight).sum();
    capped.map(|it| it.weight).sum::<f64>() >= LossWindowTuning::CAPPED_SHARE * weight
}

/// Returns the probability that so many random losses come at windows that scatter as little, as a share of
/// their mean: the bound of Chernoff for the lower tail of a chi-square distribution.
fn estimate_alike_chance(count: usize, scatter_ratio: f64) -> f64 {
    let ratio = (scatter_ratio / RANDOM_WINDOW_SCATTER).powi(2).min(1.0);
    (ratio * (1.0 - ratio).exp()).powf((count - 1) as f64 / 2.0)
}

#[cfg(test)]
mod tests {
    use super::{estimate_alike_chance, estimate_random_chance};
    use crate::limit::loss_slots::{LossSlot, build_losing_slots};
    use longhaul_model::splitmix::SplitMix64;

    const SLOTS: usize = 99;

    /// Slots of a window that grows by three segments until it loses, which `loses` decides, and is halved.
    fn sawtooth_slots(mut loses: impl FnMut(u64) -> bool) -> Vec<LossSlot> {
        let mut segments = 40;
        let mut slots = build_losing_slots(&[0.0; SLOTS], |_| 4_000);
        for slot in &mut slots {
            let is_lost = loses(segments);
            slot.bytes = segments as f64 * 14_480.0;
            slot.lost = f64::from(u8::from(is_lost));
            slot.window_bytes = segments as f64 * 1_448.0;
            segments = if is_lost { segments / 2 } else { segments + 3 };
        }
        slots
    }

    #[test]
    fn losses_at_the_top_of_a_sawtooth_are_not_random_and_those_that_make_one_are() {
        let policed = estimate_random_chance(&sawtooth_slots(|segments| segments >= 70), 1);
        assert!(policed.is_some_and(|chance| chance < 0.001), "{policed:?}");
        let count_chances_below = |limit: f64| {
            let count = (0..1000).filter(|seed| {
                let mut random = SplitMix64::new(*seed);
                let slots = sawtooth_slots(|segments| random.unit() < segments as f64 / 700.0);
                estimate_random_chance(&slots, 1).is_some_and(|chance| chance < limit)
            });
            count.count()
        };
        let [rare, usual] = [0.001, 0.05].map(count_chances_below);
        // The windows depend on the losses before, which makes small chances up to twice as frequent.
        assert!(rare <= 8 && (25..=110).contains(&usual), "{rare} and {usual} of 1000");
    }

    #[test]
    fn random_losses_hardly_ever_come_at_windows_that_are_all_alike() {
        // Eight losses at 57 to 72 segments scatter by 0.08; random losses of Reno scatter by 0.36.
        let policed = estimate_alike_chance(8, 0.08);
        assert!(policed < 0.01, "{policed}");
        let [few, random] = [estimate_alike_chance(3, 0.08), estimate_alike_chance(100, 0.36)];
        assert!(few > 0.1 && random >= 1.0, "{few} and {random}");
    }

    #[test]
    fn losses_of_slots_that_deliver_nothing_are_losses_of_segments_that_were_sent() {
        let mut slots = sawtooth_slots(|_| false);
        for (number, slot) in slots.iter_mut().enumerate() {
            // A few segments are sent, and lost, at a window that is a little larger.
            let is_lost = number % 10 == 0;
            slot.bytes = if is_lost { 0.0 } else { 1_448.0 };
            slot.lost = f64::from(u8::from(is_lost));
            slot.window_bytes = if is_lost { 5_792.0 } else { 4_344.0 };
        }
        let chance = estimate_random_chance(&slots, 1);
        assert!(chance.is_some_and(|chance| chance > 1e-12), "{chance:?}");
    }
}
