//! What ABwE saw on SLAC's paths, seen by `longhaul available`: a capacity, a shaper, a load that
//! falls, and a link that is replaced. Needs root.

use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// A few seconds of probes, set-up and tear-down.
const LIMIT: Duration = Duration::from_secs(60);

/// The forward estimate on a shipped path that begins at a time of its events.
fn estimate(path: &str, begin_at: &str) -> Value {
    xtask::needs::namespaces().expect("the path lies between network namespaces");
    let longhaul = xtask::process::longhaul_for_tests().expect("the program builds");
    let mut lab = Command::new(&longhaul);
    lab.args(["lab", "run", path, "--begin-at", begin_at, "--"])
        .arg(&longhaul);
    lab.args([
        "available",
        "far",
        "--forward",
        "--careful",
        "--json",
        "--no-save",
        "--quiet",
    ]);
    let text = xtask::process::stdout_of(&mut lab, LIMIT).expect("the run ends well");
    let report: Value = serde_json::from_str(&text).expect("the report is JSON");
    report["analysis"]["forward"].clone()
}

fn number(estimate: &Value, key: &str) -> f64 {
    estimate[key]
        .as_f64()
        .unwrap_or_else(|| panic!("no {key}: {estimate:#}"))
}

/// `of` within `share` of `expected`.
fn assert_near(what: &str, of: f64, expected: f64, share: f64) {
    let off = (of / expected - 1.0).abs();
    assert!(
        off <= share,
        "{what}: {of} is not within {share} of {expected}"
    );
}

/// IP rate of a link, for full packets.
fn ip(wire_bps: f64, overhead: f64) -> f64 {
    wire_bps * 1500.0 / (1500.0 + overhead)
}

/// Looks of which the middle one counts …
const MOST_LOOKS: usize = 5;
/// … and looks that are made for them at most.
const MOST_TRIES: usize = 9;

/// A busy machine spoils one look in a few. Once most of them are good, two at least, more change
/// nothing. Looks that say themselves that time stood still at an end are none: a machine that stops
/// for milliseconds hides what happens on the path within one.
fn looks(path: &str, begin_at: &str, is_good: impl Fn(&Value) -> bool) -> Vec<Value> {
    let mut looks: Vec<Value> = Vec::new();
    let mut tries = 0;
    while looks.len() < 2 || (looks.len() < MOST_LOOKS && !most(&looks, &is_good)) {
        if tries == MOST_TRIES {
            break;
        }
        tries += 1;
        let found = estimate(path, begin_at);
        if stood_still(&found) {
            eprintln!("{path}, look {tries}: the machine stood still: {found:#}");
        } else {
            looks.push(found);
        }
    }
    assert!(looks.len() >= 2, "only {} of {tries} looks", looks.len());
    looks
}

/// No path of these tests gives its turns in slots.
fn stood_still(found: &Value) -> bool {
    let flags = found["flags"].as_array();
    flags.is_some_and(|flags| flags.iter().any(|flag| flag == "time_slotted"))
}

fn most<T>(looks: &[T], is_good: impl Fn(&T) -> bool) -> bool {
    2 * looks.iter().filter(|look| is_good(look)).count() > looks.len()
}

fn is_near(of: &Value, expected: f64, share: f64) -> bool {
    of.as_f64()
        .is_some_and(|of| (of / expected - 1.0).abs() <= share)
}

/// The middle one of what the looks gave under `key`.
fn middle<'v>(looks: impl Iterator<Item = &'v Value>, key: &str) -> f64 {
    let mut all: Vec<f64> = looks.filter_map(|look| look[key].as_f64()).collect();
    all.sort_by(f64::total_cmp);
    let middle = all.get(all.len() / 2).copied();
    middle.unwrap_or_else(|| panic!("no {key} in any look"))
}

#[test]
fn the_capacity_to_sdsc_lies_within_its_interval() {
    let truth = ip(130e6, 38.0);
    let reaches = |found: &Value| {
        let interval = &found["capacity_interval_bps"];
        interval[0].as_f64() <= Some(1.08 * truth) && interval[1].as_f64() >= Some(0.92 * truth)
    };
    let looks = looks("slac-sdsc", "0 s", |found| {
        is_near(&found["capacity_bps"], truth, 0.08) && reaches(found)
    });
    assert_near(
        "capacity",
        middle(looks.iter(), "capacity_bps"),
        truth,
        0.08,
    );
    // Timing of a busy machine shortens stretches by some per cent.
    assert!(most(&looks, reaches), "{truth} bit/s: {looks:#?}");
}

#[test]
fn the_shaper_to_lyon_is_found_with_its_three_parameters() {
    let (rate, top) = (ip(67e6, 196.0), ip(135e6, 196.0));
    let looks = looks("slac-in2p3", "61 s", |found| {
        let bucket = &found["bucket"];
        let burst = bucket["burst_bytes"].as_f64();
        bucket["kind"] == "shaper"
            && is_near(&bucket["sustained_bps"], rate, 0.03)
            && is_near(&bucket["peak_bps"], top, 0.25)
            && burst.is_some_and(|burst| (burst - ip(5300.0, 196.0)).abs() <= 1500.0)
    });
    let is_shaper = |found: &Value| found["bucket"]["kind"] == "shaper";
    assert!(most(&looks, is_shaper), "{looks:#?}");
    let buckets = || looks.iter().map(|found| &found["bucket"]);
    let sustained = middle(buckets(), "sustained_bps");
    assert_near("sustained", sustained, rate, 0.03);
    // The peak stands for three packets only, and the first of them finds the shaper idle, so it reads
    // high; the burst, a hundred cells of 53 bytes, is known to a
    // packet.
    let peak = middle(buckets(), "peak_bps");
    assert_near("peak", peak, top, 0.25);
    let (burst, truth) = (middle(buckets(), "burst_bytes"), ip(5300.0, 196.0));
    assert!((burst - truth).abs() <= 1500.0, "burst: {burst}, {truth}");
}

#[test]
fn a_change_of_load_is_told_from_one_of_capacity() {
    let [morning, evening, upgraded] = ["0 s", "61 s", "121 s"].map(|at| {
        let found = estimate("slac-upgrade", at);
        ["capacity_bps", "available_bps"].map(|key| number(&found, key))
    });
    let t3 = 33e6;
    assert_near("morning", morning[0], t3, 0.15);
    assert_near("evening", evening[0], t3, 0.15);
    // The load is 27, then 9 Mbit/s: errors as shares of the capacity.
    for (when, available, truth) in [("morning", morning[1], 6e6), ("evening", evening[1], 24e6)] {
        let off = (available - truth).abs() / t3;
        assert!(off <= 0.15, "{when}: {available} bit/s, truly {truth}");
    }
    assert!(upgraded[0] > 3.0 * t3, "the OC-3: {} bit/s", upgraded[0]);
}
