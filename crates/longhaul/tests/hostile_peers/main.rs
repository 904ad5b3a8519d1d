//! Sessions with hostile peers, in memory and on virtual time.
//!
//! A peer is honest up to a step. Then it sends a message of which a field has an extreme value, in
//! its turn or out of it, once, again and again, byte by byte, or half; then it goes on, falls
//! silent or is cut off. Kinds, fields and variants come from the types of the wire. Each course must
//! end within its time and its memory, with a named reason.

#[path = "../../../longhaul-probe/tests/protocol/fake.rs"]
#[expect(dead_code, reason = "shared with the tests of the protocol")]
mod fake;
#[path = "../../../longhaul-probe/tests/protocol/far_end.rs"]
#[expect(dead_code, reason = "shared with the tests of the protocol")]
mod far_end;
mod field_extremes;
mod files_protocol;
mod hostile_course;
mod iperf3_wire;
#[path = "../program/json_pointers.rs"]
mod json_pointers;
mod own_wire;
mod type_samples;

use hostile_course::{CourseVictim, PeerAttack, PeerScript, honest_peer, run_course};
use parking_lot::Mutex;
use peak_alloc::PeakAlloc;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// One test at a time, because they count the memory of the process.
static ALONE: Mutex<()> = Mutex::new(());

const SESSION_COURSES: usize = 60_000;
const IPERF3_COURSES: usize = 40_000;

const FILES_REQUESTS: usize = 1000;
const FILES_COPIES: usize = 200;
/// The memory of a server of files and its client, or of a copy and its server.
const FILES_BUDGET: usize = 128 << 20;

/// The end of a course.
struct CourseRecord {
    reason: String,
    took: Duration,
    peak_bytes: usize,
}

/// Drives a course and measures its memory beyond that of the hostile message itself.
fn run_measured(
    victim: &mut dyn CourseVictim,
    script: &PeerScript,
    attack: &PeerAttack,
    bound: Duration,
    budget: usize,
) -> CourseRecord {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let took = run_course(victim, script, attack, bound);
    let peak_bytes = ALLOCATOR.peak_usage() - before;
    let reason = victim.reason().expect("it ended");
    assert!(peak_bytes <= budget, "{peak_bytes} bytes, {} in the message", attack.bytes.len());
    CourseRecord { reason, took, peak_bytes }
}

/// Runs courses by number, counts their ends by name, and prints what was tried.
fn run_courses(courses: usize, run: impl Fn(usize) -> CourseRecord) -> BTreeMap<String, u64> {
    let (mut ends, mut longest, mut peak_bytes) = (BTreeMap::new(), Duration::ZERO, 0);
    for number in 0..courses {
        let record = catch_unwind(AssertUnwindSafe(|| run(number))).unwrap_or_else(|panic| {
            eprintln!("course {number} failed");
            resume_unwind(panic)
        });
        let name = record.reason.split(|letter: char| !letter.is_alphanumeric()).next();
        *ends.entry(name.unwrap_or_default().to_owned()).or_default() += 1;
        longest = longest.max(record.took);
        peak_bytes = peak_bytes.max(record.peak_bytes);
    }
    println!("{ends:?}, at most {longest:?} and {peak_bytes} bytes");
    println!("attack: tried {courses}");
    ends
}

#[test]
fn sessions_with_honest_peers_finish() {
    let _alone = ALONE.lock();
    for scene in own_wire::list_scenes() {
        let record = own_wire::run_scene(&scene, scene.script(), &honest_peer(scene.script()));
        assert_eq!(record.reason, "Finished");
    }
    for scene in iperf3_wire::list_scenes() {
        let record = iperf3_wire::run_scene(&scene, &honest_peer(scene.script()));
        assert_eq!(record.reason, "Finished");
    }
}

#[test]
fn results_of_all_streams_stay_within_the_memory_of_one_client() {
    let _alone = ALONE.lock();
    let record = own_wire::run_endless_results();
    assert!(record.reason.starts_with("PeerViolation"), "{}", record.reason);
}

#[test]
fn no_hostile_peer_of_our_wire_holds_or_fools_a_session() {
    let _alone = ALONE.lock();
    let attacks = own_wire::SessionAttacks::new();
    let ends = run_courses(SESSION_COURSES, |number| attacks.run(number));
    for end in ["Finished", "PeerViolation", "TimedOut", "Cut", "WeRefused", "PeerRefused"] {
        assert!(ends.contains_key(end), "no course ended with {end}: {ends:?}");
    }
}

#[test]
fn no_hostile_peer_of_iperf3_holds_or_fools_a_test() {
    let _alone = ALONE.lock();
    let attacks = iperf3_wire::Iperf3Attacks::new();
    let ends = run_courses(IPERF3_COURSES, |number| attacks.run(number));
    for end in ["Finished", "Violation", "TimedOut", "Refused", "Terminated", "Gone"] {
        assert!(ends.contains_key(end), "no course ended with {end}: {ends:?}");
    }
}

/// Runs attacks on an end that works with threads, and asserts its memory.
fn measure_attacks(tried: usize, attack: impl Fn(usize) -> usize) -> usize {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let counted = attack(tried);
    let peak_bytes = ALLOCATOR.peak_usage() - before;
    println!("{counted} of {tried}, at most {peak_bytes} bytes\nattack: tried {tried}");
    assert!(peak_bytes <= FILES_BUDGET, "{peak_bytes} bytes");
    counted
}

#[test]
fn no_hostile_client_of_files_holds_a_server_or_leaves_its_folder() {
    let _alone = ALONE.lock();
    let answered = measure_attacks(FILES_REQUESTS, files_protocol::attack_server);
    assert!(answered > FILES_REQUESTS / 10, "{answered}");
}

#[test]
fn no_hostile_server_of_files_holds_a_copy_or_leaves_its_folder() {
    let _alone = ALONE.lock();
    let failed = measure_attacks(FILES_COPIES, files_protocol::attack_client);
    assert!(failed > FILES_COPIES / 2, "{failed}");
}
