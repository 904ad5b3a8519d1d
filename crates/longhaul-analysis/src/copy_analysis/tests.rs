//! Copies of known truth.

use super::*;
use longhaul_accuracy::copy_pipeline::CopyPipeline;
use proptest::prelude::*;

#[test]
fn the_slow_stage_of_a_pipeline_is_named() {
    let fast = CopyPipeline::EVEN;
    let cases = [
        (CopyPipeline { read: 5000.0, ..fast }, CopyLimiter::SourceDisk),
        (CopyPipeline { source_hash: 5000.0, ..fast }, CopyLimiter::SourceCpu),
        (CopyPipeline { network: 5000.0, ..fast }, CopyLimiter::Network),
        (CopyPipeline { target_hash: 9000.0, ..fast }, CopyLimiter::TargetCpu),
        (CopyPipeline { write: 5000.0, ..fast }, CopyLimiter::TargetDisk),
    ];
    for (pipeline, limiter) in cases {
        let (analysis, findings) = conclude_copy(&pipeline.run(400));
        assert_eq!(analysis.limited_by, limiter, "{:?}", analysis.split);
        assert_eq!(findings[0].cause, limiter.word());
    }
}

#[test]
fn a_copy_of_a_moment_says_that_it_cannot_tell() {
    let seen = CopyObservation { data_us: 5000, ..CopyPipeline::EVEN.run(3) };
    let (analysis, findings) = conclude_copy(&seen);
    assert_eq!(analysis.limited_by, CopyLimiter::CannotTell);
    assert!(analysis.split.is_none() && findings.is_empty());
    assert_eq!(conclude_copy(&CopyObservation::default()).0.goodput_bps, None);
}

#[test]
fn what_the_disk_does_after_the_last_byte_is_the_disks() {
    let mut seen = CopyPipeline::EVEN.run(400);
    seen.target.sync_us = 3 * seen.target.elapsed_us;
    seen.target.elapsed_us *= 4;
    seen.data_us *= 4;
    let (analysis, _) = conclude_copy(&seen);
    assert_eq!(analysis.limited_by, CopyLimiter::TargetDisk);
}

#[test]
fn a_connection_that_ends_last_is_not_charged_to_an_idle_disk() {
    let mut seen = CopyPipeline { network: 5000.0, ..CopyPipeline::EVEN }.run(400);
    seen.target.disk.busy_us = 12_700;
    seen.target.sync_us = 325;
    seen.target.elapsed_us *= 2;
    seen.data_us *= 2;
    let (analysis, _) = conclude_copy(&seen);
    assert_eq!(analysis.limited_by, CopyLimiter::Network, "{:?}", analysis.split);
}

fn stage() -> impl Strategy<Value = CopyStage> {
    let us = || 0_u64..10_000_000;
    (0_u32..9, us(), us(), us(), us(), prop::option::of(us())).prop_map(
        |(threads, busy_us, cpu_us, idle_us, blocked_us, core_wait_us)| CopyStage {
            threads,
            busy_us,
            cpu_us,
            idle_us,
            blocked_us,
            core_wait_us,
        },
    )
}

fn end() -> impl Strategy<Value = CopyEndCounts> {
    (stage(), stage(), 0_u64..10_000_000, 0_u64..10_000_000).prop_map(
        |(disk, network, hash_us, elapsed_us)| CopyEndCounts {
            disk,
            network,
            hash_us,
            elapsed_us,
            ..CopyEndCounts::default()
        },
    )
}

/// A copy that was looked at every 50 ms; `sent` says what was sent by then.
fn watched(data_us: u64, sent: impl Fn(u64) -> u64) -> CopyObservation {
    let course = (0..=data_us / 50_000)
        .map(|i| CopyPoint { elapsed_us: i * 50_000, bytes: sent(i * 50_000) });
    CopyObservation {
        sent_bytes: sent(data_us),
        data_us,
        course: course.collect(),
        ..CopyObservation::default()
    }
}

proptest! {
    #[test]
    fn shares_of_any_copy_make_one(source in end(), target in end(), data_us in 0_u64..9_000_000) {
        let seen = CopyObservation { source, target, data_us, ..CopyObservation::default() };
        let Some(split) = split_copy_time(&seen) else { return Ok(()); };
        let shares = split.shares().map(|(_, share)| share);
        prop_assert!(shares.iter().all(|share| (-1e-9..=1.0 + 1e-9).contains(share)), "{shares:?}");
        prop_assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{shares:?}");
    }

    /// time = start-up + size / rate.
    #[test]
    fn start_up_and_rate_are_told_apart(
        start_us in 0_u64..3_000_000,
        bytes_per_us in 1_u64..2000,
        seconds in 2_u64..20,
    ) {
        let data_us = start_us + seconds * 1_000_000;
        let sent = |at: u64| at.saturating_sub(start_us) * bytes_per_us;
        let seen = CopyObservation {
            setup_us: 700_000,
            ..watched(data_us, sent)
        };
        let (analysis, _) = conclude_copy(&seen);
        let rate = analysis.asymptotic_bps.expect("long enough") as f64 / 8e6;
        prop_assert!((rate / bytes_per_us as f64 - 1.0).abs() < 0.03, "{rate}");
        let startup = analysis.startup_us.expect("long enough") as f64;
        prop_assert!((startup - (start_us + 700_000) as f64).abs() < 0.03 * data_us as f64);
    }

    #[test]
    fn a_copy_that_slows_down_has_no_rate_that_it_tends_to(
        bytes_per_us in 10_u64..2000,
        slower in 2_u64..10,
    ) {
        let data_us = 10_000_000;
        let sent = |at: u64| at.min(3_000_000) * bytes_per_us
            + at.saturating_sub(3_000_000) * (bytes_per_us / slower);
        let seen = watched(data_us, sent);
        let (analysis, _) = conclude_copy(&seen);
        prop_assert_eq!((analysis.asymptotic_bps, analysis.startup_us), (None, None));
        prop_assert!(analysis.evidence.iter().any(|text| text.contains("slowed down")));
    }

    #[test]
    fn no_course_of_a_liar_panics(points in prop::collection::vec((0_u64.., 0_u64..), 0..40)) {
        let course = points.into_iter().map(|(elapsed_us, bytes)| CopyPoint { elapsed_us, bytes });
        let seen = CopyObservation { course: course.collect(), ..CopyObservation::default() };
        let _ = conclude_copy(&seen);
    }
}
