//! Copies of files between real ends: what they say held them, and what kills cost. Needs root.

mod copy_resume;
mod paced_pipe;
mod slowdown_proof;

use copy_resume::{MAX_SENT_RATIO, ResumePlan};
use longhaul_bench::copy_bench::CopyTestbed;
use longhaul_bench::scratch_folder::ScratchFolder;
use slowdown_proof::ClientEnd::{self, Source, Target};
use slowdown_proof::{
    FULL_PATH_FILE, MANY_STREAMS_PATH_FILE, MIB, NARROW_PATH_FILE, SlowdownProof, copy_over_path,
};

crate::virtual_tests!(
    the_verdict_follows_whatever_is_slow,
    a_copy_that_is_killed_at_both_ends_is_taken_up_each_time,
    the_end_of_a_copy_is_forecast_while_it_runs,
    streams_are_added_while_each_adds_rate,
    a_full_path_gets_no_more_streams,
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
        let (_, raised) = proof.read_streams();
        assert_eq!(raised, 0, "{}: {}", proof.slow, proof.report["observation"]);
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
    let copied = copy_over_path(&longhaul, NARROW_PATH_FILE, Source, &["-P", "8"], 240 * MIB);
    let report = copied.expect("it ends well").report;
    let forecasts = report["analysis"]["forecasts"].as_array().expect("forecasts");
    let truth_us = report["observation"]["data_us"].as_u64().expect("a time");
    assert!(forecasts.len() >= 3, "{forecasts:?} of {truth_us} us");
    for forecast in &forecasts[1..] {
        let field = |name: &str| forecast[name].as_u64().expect("a time");
        let interval = field("finish_low_us")..=field("finish_high_us");
        assert!(interval.contains(&truth_us), "{forecast} but {truth_us} us");
    }
}

/// Copies over the path on which many connections are needed, and prints what came of it.
fn copy_over_losses(client: ClientEnd, options: &[&str], bytes: u64) -> SlowdownProof {
    let longhaul = xtask::program_runner::build_longhaul_for_tests().expect("the program builds");
    let copied = copy_over_path(&longhaul, MANY_STREAMS_PATH_FILE, client, options, bytes);
    let copied = copied.expect("it ends well");
    eprintln!(
        "{client:?} {options:?}: {:.1} Mbit/s, {}",
        copied.goodput_bps() / 1e6,
        copied.report["observation"]["adjustments"]
    );
    copied
}

fn streams_are_added_while_each_adds_rate() {
    let one = copy_over_losses(Source, &["-P", "1"], 16 * MIB);
    let four = copy_over_losses(Source, &["-P", "4"], 48 * MIB);
    assert_eq!(four.read_streams(), (4, 0), "an option is not changed");
    for client in [Source, Target] {
        let adapted = copy_over_losses(client, &[], 200 * MIB);
        // Eight may fill the path, depending on which packets are lost.
        assert!(adapted.read_streams().0 >= 8, "{}", adapted.report);
        assert!(adapted.goodput_bps() > 4.0 * one.goodput_bps(), "{}", adapted.report);
        assert!(adapted.goodput_bps() > 1.5 * four.goodput_bps(), "{}", adapted.report);
        assert!(adapted.holds(), "{}", adapted.report["analysis"]);
    }
}

fn a_full_path_gets_no_more_streams() {
    let longhaul = xtask::program_runner::build_longhaul_for_tests().expect("the program builds");
    let copied = copy_over_path(&longhaul, FULL_PATH_FILE, Source, &[], 80 * MIB);
    let copied = copied.expect("it ends well");
    eprintln!("{}", copied.report["observation"]["adjustments"]);
    assert_eq!(copied.read_streams(), (4, 1), "{}", copied.report["observation"]["adjustments"]);
    assert!(copied.goodput_bps() > 0.9 * 38e6, "{}", copied.report["analysis"]);
}
