mod mesh;
mod play;
mod rules;

use super::ClockTimes;
use crate::watch::SECOND_US;
use play::{Action, Play, file_of};
use proptest::prelude::*;

const MINUTE_US: i64 = 60 * SECOND_US;

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let action = prop_oneof![
        8 => (1_u32..60).prop_map(Action::Go),
        1 => (0_i64..6 * 3600).prop_map(|s| Action::Sleep(s * SECOND_US)),
        1 => (-90_000_i64..90_000).prop_map(|s| Action::SetClock(s * SECOND_US)),
        1 => any::<u64>().prop_map(Action::Reload),
        1 => (0_usize..1000).prop_map(Action::Ask),
        1 => (0_u8..=100).prop_map(Action::Failing),
        1 => (0_u8..=60).prop_map(Action::Busy),
        1 => (1_u32..400).prop_map(Action::Lasting),
    ];
    prop::collection::vec(action, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Random files, durations, failures, refusals, sleep, clock steps, reloads, and runs on
    /// demand: the play checks after every call that each run ends once, that the sums hold, that
    /// heavy runs share nothing, and that time goes on.
    #[test]
    fn every_planned_run_ends_exactly_once(seed in any::<u64>(), actions in actions()) {
        let mut play = Play::new(&file_of(seed), seed);
        for action in actions {
            play.act(&action)?;
        }
        play.stop()?;
        prop_assert!(play.ended() > 0 || play.planned() == 0);
    }

    #[test]
    fn starts_keep_to_their_interval_and_jitter(seed in any::<u64>(), number in 0_i64..1 << 20) {
        for job in Play::new(&file_of(seed), seed).schedule.jobs() {
            let (due, next) = (job.due_us(number), job.due_us(number + 1));
            let slack = match &job.window {
                Some(gate) => gate.cycle_us + gate.length_us,
                None => job.jitter_us,
            };
            prop_assert!(next > due);
            prop_assert!((next - due - job.every_us).abs() <= slack, "{:?}", job.key);
            prop_assert_eq!(job.latest_at(due), number);
            prop_assert_eq!(job.first_after(due), number + 1);
        }
    }

    #[test]
    fn clocks_of_any_value_never_panic(
        seed in any::<u64>(),
        times in prop::collection::vec((any::<i64>(), any::<i64>()), 1..12),
    ) {
        let mut play = Play::new(&file_of(seed), seed);
        for (wall_us, steady_us) in times {
            let now = ClockTimes { wall_us, steady_us };
            for start in play.schedule.start_due(now) {
                let done = super::AttemptOutcome::Done { sent_bytes: u64::MAX };
                prop_assert!(play.schedule.finish_run(&start.id, done, now));
            }
        }
        let tally = play.schedule.run_counts();
        let ended = tally.done + tally.failed + tally.missed;
        prop_assert_eq!(tally.planned, ended + tally.waiting + tally.running);
    }
}
