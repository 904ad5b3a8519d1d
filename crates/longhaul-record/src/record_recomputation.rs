//! Recomputes the figures of a record from its own bytes, seconds and points.

use crate::bundle_verification::{BundleVerification, IMPORTED, RECORD};
use crate::record_conclusion::conclude_record;
use crate::rule_sets;
use crate::speed_record::{
    RecordAnalysis, RecordObservation, RuleSet, SCHEMA, SpeedRecord, format_kilometres, format_mark,
};
use longhaul_analysis::imported::find_counted_bytes;
use longhaul_model::report::v1::{ImportedReport, SCHEMA as REPORT, ThroughputReport};

/// The schema before cities of routers were left to the reader (0041).
const OLD_SCHEMA: &str = "longhaul.record/1";
/// The tolerance of the mark: the last millimetre of a distance changes it.
const SAME_RATIO: f64 = 1e-8;
/// The tolerance of lengths: geodesic libraries round differently.
const SAME_MM: u64 = 2;

/// Recomputes a record and compares it with its run, which is in the file `name`.
pub fn recompute_record(record: &[u8], name: &str, run: &[u8], found: &mut BundleVerification) {
    let record: SpeedRecord = match serde_json::from_slice(record) {
        Ok(record) => record,
        Err(error) => return found.add_difference(RECORD, format!("not a record: {error}")),
    };
    if ![SCHEMA, OLD_SCHEMA].contains(&record.schema.as_str()) {
        return found.add_difference(RECORD, format!("the schema is not {SCHEMA}"));
    }
    let run = match parse_run_counts(name, run) {
        Ok(run) => run,
        Err(why) => return found.add_difference(name, why),
    };
    let before = found.differs.len();
    compare_counts(&record.observation, &run, found);
    // Rule sets may have grown since; the figures do not depend on them.
    let rules = RuleSet::default();
    let made = conclude_record(&record.observation, &rules, &rule_sets::load_mark_history());
    compare_analyses(&record.analysis, &made, found);
    if found.differs.len() == before {
        found.agrees.push(match made.mark_bit_m_per_s {
            None => {
                "the bundle claims no score; its bytes and duration are those of the run".into()
            }
            Some(mark) => {
                format!("score, recomputed from bytes, duration and points: {}", format_mark(mark))
            }
        });
    }
}

/// The counters of a run.
struct RunCounts {
    id: String,
    received_bytes: u64,
    elapsed_us: u64,
    streams: u64,
}

fn parse_run_counts(name: &str, run: &[u8]) -> Result<RunCounts, String> {
    let no_run = |error: serde_json::Error| format!("not a run: {error}");
    let (schema, counts) = if name == IMPORTED {
        let run: ImportedReport = serde_json::from_slice(run).map_err(no_run)?;
        let counted = find_counted_bytes(&run.observation);
        let counted = counted.ok_or("no bytes and duration of one end")?;
        let counts = RunCounts {
            id: run.run.id,
            received_bytes: counted.bytes,
            elapsed_us: counted.duration_us,
            streams: run.observation.streams.len() as u64,
        };
        (run.schema, counts)
    } else {
        let run: ThroughputReport = serde_json::from_slice(run).map_err(no_run)?;
        let seen = &run.observation;
        // A server of another program may count what it sent in another way.
        let is_own = seen.forward || run.run.responder.longhaul.is_some();
        let checked = if is_own { seen.check_direction() } else { Ok(()) };
        checked
            .map_err(|why| format!("the counts of the two ends contradict each other: {why}"))?;
        let received = seen.streams.iter();
        let counts = RunCounts {
            received_bytes: received.fold(0, |sum, it| sum.saturating_add(it.receiver.bytes)),
            elapsed_us: run.observation.elapsed_us,
            streams: run.observation.streams.len() as u64,
            id: run.run.id,
        };
        (run.schema, counts)
    };
    if schema != REPORT {
        return Err(format!("the schema is not {REPORT}"));
    }
    Ok(counts)
}

/// Checks that the record describes the run in the bundle.
fn compare_counts(record: &RecordObservation, run: &RunCounts, found: &mut BundleVerification) {
    for (what, said, counted) in [
        ("received_bytes", record.received_bytes, run.received_bytes),
        ("elapsed_us", record.elapsed_us, run.elapsed_us),
        ("streams", u64::from(record.streams), run.streams),
    ] {
        if said != counted {
            let why = format!("{said} in the record, but {counted} in the run");
            found.add_difference(what, why);
        }
    }
    if record.throughput_run != run.id {
        found.add_difference("throughput_run", "the bundle has another run");
    }
}

fn compare_analyses(said: &RecordAnalysis, made: &RecordAnalysis, found: &mut BundleVerification) {
    let mut compare = |what: &str, same: bool, said: String, made: String| {
        if !same {
            found.add_difference(what, format!("{said} in the record, but {made} recomputed"));
        }
    };
    let class = |of: &RecordAnalysis| of.class.clone().unwrap_or_else(|| "none".to_owned());
    compare("class", said.class == made.class, class(said), class(made));
    compare(
        "goodput_bps",
        said.goodput_bps.abs_diff(made.goodput_bps) <= 1,
        said.goodput_bps.to_string(),
        made.goodput_bps.to_string(),
    );
    let off = SAME_MM * said.legs.len().max(1) as u64;
    for (what, said, made) in [
        ("distance_mm", said.distance_mm, made.distance_mm),
        ("distance_sphere_mm", said.distance_sphere_mm, made.distance_sphere_mm),
    ] {
        let same = match (said, made) {
            (Some(said), Some(made)) => said.abs_diff(made) <= off,
            (said, made) => said == made,
        };
        let show = |mm: Option<u64>| mm.map_or_else(|| "none".to_owned(), format_kilometres);
        compare(what, same, show(said), show(made));
    }
    let (said_mark, made_mark) = (said.mark_bit_m_per_s, made.mark_bit_m_per_s);
    let same_mark = match (said_mark, made_mark) {
        (Some(said), Some(made)) => (said / made - 1.0).abs() <= SAME_RATIO,
        (said, made) => said == made,
    };
    let show = |mark: Option<f64>| mark.map_or_else(|| "none".to_owned(), format_mark);
    compare("mark_bit_m_per_s", same_mark, show(said_mark), show(made_mark));
    let same_legs = said.legs.len() == made.legs.len()
        && said.legs.iter().zip(&made.legs).all(|(said, made)| {
            (&said.from, &said.to) == (&made.from, &made.to)
                && said.length_mm.abs_diff(made.length_mm) <= SAME_MM
                && said.sphere_mm.abs_diff(made.sphere_mm) <= SAME_MM
        });
    if !same_legs {
        found.add_difference("legs", "not the geodesics between the stops");
    }
}
