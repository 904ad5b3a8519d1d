//! Copies of files between real ends: what they say held them, and what kills cost. Needs root.

mod copy_resume;
mod paced_pipe;
mod slowdown_proof;

use copy_resume::{MAX_SENT_RATIO, ResumePlan};
use longhaul_bench::copy_bench::CopyTestbed;
use longhaul_bench::scratch_folder::ScratchFolder;

crate::virtual_tests!(
    the_verdict_follows_whatever_is_slow,
    a_copy_that_is_killed_at_both_ends_is_taken_up_each_time,
    the_end_of_a_copy_is_forecast_while_it_runs,
);

/// Short and with large packets: what a kill loses is small beside a small file.
const SHORT: &str = "name = \"short\"\nmtu = 9000\n\
    [[hops]]\nname = \"narrow\"\ndelay = \"3 ms\"\nrate = \"400 Mbit/s\"\nqueue = \"2 MB\"\n\
    [[hops]]\nname = \"last\"\nrate = \"10 Gbit/s\"\nqueue = \"8 MB\"\n";

fn the_verdict_follows_whatever_is_slow() {
    let longhaul = xtask::program_runner::build_longhaul_for_tests().expect("the program builds");
    let proofs = slowdown_proof::run_slowdown_proofs(&longhaul).expect("every copy ends well");
    assert_eq!(proofs.len(), 4);
    for proof in proofs {
        let split = &proof.report["analysis"]["split"];
        assert!(proof.holds(), "{}: {} {split}", proof.slow, proof.limited_by());
    }
}

fn a_copy_that_is_killed_at_both_ends_is_taken_up_each_time() {
    let longhaul = xtask::program_runner::build_longhaul_for_tests().expect("the program builds");
    let store = ScratchFolder::in_memory().expect("a file system in memory");
    let path = store.write("short.toml", SHORT).expect("a path file");
    let path = path.to_str().expect("plain");
    let ground = CopyTestbed::path(&longhaul, path).expect("the path comes up");
    let course = ResumePlan { bytes: 160_000_000, kills: 2, options: &["-P", "2", "-w", "1M"] };
    let seen = copy_resume::run_resumes(&ground, &store, course).expect("it ends well");
    assert!(seen.same, "{seen:?}");
    assert!(seen.held_bytes > seen.bytes / 2, "{seen:?}");
    assert!(seen.sent_bytes > seen.bytes, "headers count: {seen:?}");
    assert!(seen.sent_ratio() < MAX_SENT_RATIO, "{seen:?}");
}

fn the_end_of_a_copy_is_forecast_while_it_runs() {
    let longhaul = xtask::program_runner::build_longhaul_for_tests().expect("the program builds");
    let report = slowdown_proof::copy_over_narrow_path(&longhaul, 240 << 20).expect("it ends well");
    let forecasts = report["analysis"]["forecasts"].as_array().expect("forecasts");
    let truth_us = report["observation"]["data_us"].as_u64().expect("a time");
    assert!(forecasts.len() >= 3, "{forecasts:?} of {truth_us} us");
    for forecast in &forecasts[1..] {
        let field = |name: &str| forecast[name].as_u64().expect("a time");
        let interval = field("finish_low_us")..=field("finish_high_us");
        assert!(interval.contains(&truth_us), "{forecast} but {truth_us} us");
    }
}
