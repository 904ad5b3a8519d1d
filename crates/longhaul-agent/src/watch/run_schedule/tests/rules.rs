//! Single rules, each where it decides.

use super::MINUTE_US;
use super::play::{Play, read};
use crate::watch::daily_budget::BudgetUsage;
use crate::watch::run_schedule::{
    AttemptOutcome, ClockTimes, MissedReason, RequestedRun, RunRequestError, RunSchedule,
    ScheduleNote, ScheduledRun,
};
use crate::watch::{DAY_US, SECOND_US};
use std::collections::{BTreeMap, HashMap};

const BEGIN_US: i64 = 1_790_000_000 * SECOND_US;

fn at(us: i64) -> ClockTimes {
    ClockTimes { wall_us: BEGIN_US + us, steady_us: us }
}

/// An agent that measures so many hosts.
fn star(hosts: usize, agent: &str, measure: &str) -> String {
    let hosts = (1..=hosts)
        .map(|n| format!("[[host]]\nname = \"h{n}\"\n[[target]]\nhost = \"h{n}\"\n"))
        .collect::<Vec<_>>()
        .concat();
    format!(
        "[agent]\nname = \"h0\"\njitter = \"0 s\"\n{agent}\n{hosts}[[measure]]\nname = \"m\"\n{measure}\n"
    )
}

fn schedule(hosts: usize, agent: &str, measure: &str) -> RunSchedule {
    let file = read(&star(hosts, agent, measure), None).expect("the file is right");
    let mut schedule = RunSchedule::new(&file, 1);
    assert!(schedule.start_due(at(0)).is_empty(), "nothing was due before the first look");
    schedule
}

/// Looks at every decision until `until_us`; each run ends at once as `outcome` says.
fn run(
    schedule: &mut RunSchedule,
    until_us: i64,
    mut outcome: impl FnMut(&ScheduledRun) -> AttemptOutcome,
) -> Vec<ScheduledRun> {
    let mut started = Vec::new();
    while let Some(next) = schedule.next_at().filter(|next| *next <= BEGIN_US + until_us) {
        let now = at(next - BEGIN_US);
        for start in schedule.start_due(now) {
            schedule.finish_run(&start.id, outcome(&start), now);
            started.push(start);
        }
    }
    started
}

fn done(_: &ScheduledRun) -> AttemptOutcome {
    AttemptOutcome::Done { sent_bytes: 0 }
}

fn reasons(notes: &[ScheduleNote]) -> BTreeMap<MissedReason, usize> {
    let mut reasons = BTreeMap::new();
    for note in notes {
        if let ScheduleNote::Missed(_, reason) = note {
            *reasons.entry(*reason).or_insert(0) += 1;
        }
    }
    reasons
}

#[test]
fn each_job_runs_once_in_each_interval() {
    let mut schedule = schedule(5, "", "kind = \"path\"\nevery = \"10 min\"");
    let started = run(&mut schedule, 10 * 60 * MINUTE_US, done);
    assert_eq!(started.len(), 5 * 60);
    assert_eq!(schedule.run_counts().missed, 0);
}

#[test]
fn after_sleep_the_latest_of_each_is_late_and_the_others_are_missed_asleep() {
    let measure = "kind = \"path\"\nevery = \"10 min\"";
    let mut schedule = schedule(3, "", measure);
    run(&mut schedule, 20 * MINUTE_US, done);
    schedule.take_notes();
    let woken = schedule.start_due(at(20 * MINUTE_US + 8 * 60 * MINUTE_US));
    let mut each: HashMap<_, usize> = HashMap::new();
    for start in &woken {
        *each.entry(start.job.key.clone()).or_default() += 1;
    }
    assert!(each.values().all(|runs| *runs == 1) && each.len() == 3, "{each:?}");
    assert_eq!(reasons(&schedule.take_notes()), BTreeMap::from([(MissedReason::Asleep, 3 * 47)]));
}

#[test]
fn without_catching_up_all_that_nobody_saw_is_missed() {
    let measure = "kind = \"path\"\nevery = \"10 min\"";
    let mut schedule = schedule(3, "catch_up = \"none\"", measure);
    run(&mut schedule, 20 * MINUTE_US, done);
    schedule.take_notes();
    assert_eq!(schedule.start_due(at(20 * MINUTE_US + 8 * 60 * MINUTE_US)).len(), 0);
    assert_eq!(reasons(&schedule.take_notes()), BTreeMap::from([(MissedReason::Asleep, 3 * 48)]));
}

#[test]
fn a_clock_that_is_set_forward_is_told_from_sleep_and_one_set_back_repeats_nothing() {
    let measure = "kind = \"path\"\nevery = \"10 min\"";
    let mut schedule = schedule(1, "", measure);
    run(&mut schedule, 15 * MINUTE_US, done);
    schedule.take_notes();
    let ahead = ClockTimes {
        wall_us: BEGIN_US + 15 * MINUTE_US + 60 * MINUTE_US,
        steady_us: 15 * MINUTE_US + SECOND_US,
    };
    assert_eq!(schedule.start_due(ahead).len(), 1);
    let missed = reasons(&schedule.take_notes());
    assert_eq!(missed, BTreeMap::from([(MissedReason::ClockStepped, 5)]));
    let back = ClockTimes { wall_us: BEGIN_US, steady_us: 15 * MINUTE_US + 2 * SECOND_US };
    assert!(schedule.start_due(back).is_empty());
    let next = schedule.next_at().expect("a next run");
    assert!(next > BEGIN_US && next <= BEGIN_US + 10 * MINUTE_US, "an hour is not skipped");
    assert_eq!(reasons(&schedule.take_notes()), BTreeMap::new());
}

#[test]
fn budgets_hold_and_begin_anew_at_midnight() {
    // 10 s at 1 Gbit/s are 1.25 GB; the day has room for three.
    let measure = "kind = \"throughput\"\nevery = \"1 h\"\ndirections = \"forward\"\n\
                   bytes_per_day = \"4 GB\"";
    let mut schedule = schedule(1, "", measure);
    let spend = |_: &ScheduledRun| AttemptOutcome::Done { sent_bytes: 1_250_000_000 };
    let started = run(&mut schedule, 4 * DAY_US, spend);
    let mut days: BTreeMap<i64, usize> = BTreeMap::new();
    for start in &started {
        *days.entry(start.due_us / DAY_US).or_default() += 1;
    }
    assert!(days.values().all(|runs| *runs == 3), "{days:?}");
    assert!(days.len() >= 4);
    let missed = reasons(&schedule.take_notes());
    assert_eq!(missed.keys().collect::<Vec<_>>(), [&MissedReason::Budget]);
    let tally = schedule.run_counts();
    assert_eq!(tally.planned, tally.done + tally.missed);
}

#[test]
fn bytes_that_were_not_sent_are_free_again() {
    let measure = "kind = \"throughput\"\nevery = \"1 h\"\ndirections = \"forward\"\n\
                   bytes_per_day = \"2 GB\"";
    let mut schedule = schedule(1, "", measure);
    let little = |_: &ScheduledRun| AttemptOutcome::Done { sent_bytes: 10_000_000 };
    run(&mut schedule, 10 * 60 * MINUTE_US, little);
    assert_eq!(schedule.run_counts().missed, 0);
    assert_eq!(schedule.run_counts().done, 10);
}

#[test]
fn a_failing_target_is_left_alone_and_tried_again() {
    let mut schedule = schedule(2, "", "kind = \"path\"\nevery = \"1 min\"");
    let mut tries = Vec::new();
    run(&mut schedule, 5 * 60 * MINUTE_US, |start| {
        if start.job.target.as_deref() == Some("h1") {
            tries.push(start.due_us);
            return AttemptOutcome::Failed { sent_bytes: 0 };
        }
        done(start)
    });
    // Three at once, then 1, 2, 4, … 60 minutes apart.
    assert!((8..=14).contains(&tries.len()), "{}", tries.len());
    let longest = tries.windows(2).map(|two| two[1] - two[0]).max();
    assert!(longest <= Some(61 * MINUTE_US), "{longest:?}");
    let missed = reasons(&schedule.take_notes());
    assert_eq!(missed.keys().collect::<Vec<_>>(), [&MissedReason::TargetFailing]);
    assert_eq!(schedule.run_counts().done, 300, "the other target does not suffer");
}

#[test]
fn a_busy_far_end_is_asked_again_until_the_next_run_is_due() {
    let mut schedule = schedule(1, "", "kind = \"path\"\nevery = \"10 min\"");
    let mut asked = 0;
    run(&mut schedule, 20 * MINUTE_US, |_| {
        asked += 1;
        AttemptOutcome::Refused
    });
    assert!(asked > 5, "{asked}");
    let missed = reasons(&schedule.take_notes());
    assert_eq!(missed.keys().collect::<Vec<_>>(), [&MissedReason::FarEndBusy]);
}

#[test]
fn no_pair_starves_where_there_is_not_time_for_all() {
    let measure = "kind = \"throughput\"\nevery = \"5 min\"";
    let file = read(&star(8, "", measure), None).expect("the file is right");
    let mut play = Play::new(&file, 3);
    // Runs take up to twice of what was said, so that a third of them cannot be made.
    play.outcomes(0, 0, 300);
    for _ in 0..20_000 {
        play.step().expect("all holds");
    }
    let mut each: HashMap<_, usize> = HashMap::new();
    for (job, _) in &play.starts {
        *each.entry(job.key.clone()).or_default() += 1;
    }
    let (least, most) = (each.values().min(), each.values().max());
    assert_eq!(each.len(), 16);
    let even = least.zip(most).is_some_and(|(least, most)| 10 * least >= 9 * most);
    assert!(even, "{each:?}");
    assert!(play.schedule.run_counts().missed > 100, "there was not time for all");
}

#[test]
fn light_runs_go_side_by_side_up_to_their_number() {
    let measure = "kind = \"path\"\nevery = \"50 s\"\njitter = \"0 s\"";
    let file = read(&star(40, "light_at_once = 4", measure), None).expect("right");
    let mut play = Play::new(&file, 1);
    play.outcomes(0, 0, 100);
    for _ in 0..5_000 {
        play.step().expect("never more than four");
    }
    assert!(play.schedule.run_counts().done > 500);
}

/// A heavy run each 20 s and a light one each 7 s, to one host.
const BOTH_KINDS: &str = "kind = \"throughput\"\ntime = \"4 s\"\ndirections = \"forward\"\n\
                          every = \"20 s\"\n[[measure]]\nname = \"n\"\nkind = \"available\"\n\
                          mode = \"light\"\nevery = \"7 s\"";

#[test]
fn light_runs_wait_for_the_end_of_a_heavy_one_and_both_kinds_go_on() {
    let file = read(&star(1, "", BOTH_KINDS), None).expect("right");
    let mut play = Play::new(&file, 1);
    play.outcomes(0, 0, 30);
    for _ in 0..5_000 {
        play.step().expect("never beside each other");
    }
    let heavy = play.starts.iter().filter(|(job, _)| job.heavy).count();
    let light = play.starts.len() - heavy;
    let tally = play.schedule.run_counts();
    assert!(heavy > 100 && light > 2 * heavy, "{heavy} {light}");
    assert!(50 * tally.missed < tally.planned, "{tally:?}");
}

#[test]
fn more_light_runs_than_there_is_time_for_cost_no_heavy_one() {
    // A look takes 13 s of its worst 45 s, each second.
    let both = BOTH_KINDS.replace(
        "kind = \"available\"\nmode = \"light\"\nevery = \"7 s\"",
        "kind = \"path\"\nevery = \"1 s\"",
    );
    let file = read(&star(1, "", &both), None).expect("right");
    let mut play = Play::new(&file, 1);
    play.outcomes(0, 0, 30);
    for _ in 0..5_000 {
        play.step().expect("never beside each other");
    }
    let number = |heavy| play.starts.iter().filter(|(job, _)| job.heavy == heavy).count();
    let seconds = (play.now.steady_us) / SECOND_US;
    assert!(20 * number(true) as i64 >= seconds - 40, "{seconds} {}", number(true));
    assert!(number(false) > 100);
}

#[test]
fn a_run_that_is_asked_for_goes_through_the_queue_once() {
    let mut schedule = schedule(2, "", "kind = \"throughput\"\nevery = \"1 h\"");
    let key = schedule.jobs().next().expect("a job").key.clone();
    let now = at(SECOND_US);
    let Ok(RequestedRun::Queued(id)) = schedule.request_run(&key, now) else {
        panic!("not queued");
    };
    assert_eq!(schedule.request_run(&key, now), Ok(RequestedRun::AlreadyQueued(id.clone())));
    let started = schedule.start_due(now);
    assert_eq!(started.len(), 1);
    assert_eq!((&started[0].id, started[0].requested), (&id, true));
    let unknown = crate::watch::measure_jobs::JobKey { measure: "other".into(), ..key.clone() };
    assert_eq!(schedule.request_run(&unknown, now), Err(RunRequestError::Unknown));
    schedule.stop(now);
    assert_eq!(schedule.request_run(&key, now), Err(RunRequestError::Stopping));
    assert!(schedule.finish_run(&id, AttemptOutcome::Done { sent_bytes: 1 }, now));
    assert!(!schedule.finish_run(&id, AttemptOutcome::Done { sent_bytes: 1 }, now), "only once");
}

#[test]
fn a_reload_loses_no_run_that_waits_or_runs() {
    let mut schedule = schedule(6, "", "kind = \"throughput\"\nevery = \"1 h\"");
    let now = at(SECOND_US);
    let keys: Vec<_> = schedule.jobs().map(|job| job.key.clone()).collect();
    for key in &keys {
        assert!(schedule.request_run(key, now).is_ok());
    }
    let running = schedule.start_due(now);
    let before = schedule.run_counts();
    assert_eq!((before.running, before.waiting, running.len()), (1, 11, 1));
    let other = star(1, "", "kind = \"path\"\nevery = \"1 h\"").replace("\"m\"", "\"n\"");
    schedule.reload(&read(&other, None).expect("right"), now);
    assert_eq!(schedule.run_counts(), before);
    let end = AttemptOutcome::Done { sent_bytes: 5 };
    assert!(schedule.finish_run(&running[0].id, end, now));
    assert_eq!(schedule.start_due(now).len(), 1, "what waited is made, though its job is gone");
}

#[test]
fn a_run_of_which_nothing_is_heard_gives_its_locks_back() {
    let mut schedule = schedule(2, "", "kind = \"throughput\"\nevery = \"1 h\"");
    let mut started = Vec::new();
    for _ in 0..60 {
        let next = schedule.next_at().expect("more is due");
        started.extend(schedule.start_due(at(next - BEGIN_US)));
    }
    let tally = schedule.run_counts();
    assert!(tally.failed > 2, "{tally:?}");
    assert!(!schedule.finish_run(&started[0].id, done(&started[0]), at(DAY_US)));
}

#[test]
fn an_agent_goes_on_where_an_earlier_one_ended() {
    let file = read(&star(2, "", "kind = \"path\"\nevery = \"10 min\""), None).expect("right");
    let ended = BEGIN_US - 65 * MINUTE_US;
    let mut schedule = RunSchedule::new(&file, 1).resume_from(Some(ended));
    let started = schedule.start_due(at(0));
    assert_eq!(started.len(), 2, "the latest of each is made late");
    let missed = reasons(&schedule.take_notes());
    assert_eq!(missed.keys().collect::<Vec<_>>(), [&MissedReason::AgentOff]);
    assert!((10..=12).contains(&missed[&MissedReason::AgentOff]), "{missed:?}");
    let off = schedule.off_time().expect("it was off");
    assert_eq!((off.begin_us, off.end_us), (ended, BEGIN_US));
    // Nobody has planned yet: nothing is late.
    let mut first = RunSchedule::new(&file, 1).resume_from(None);
    assert!(first.start_due(at(0)).is_empty());
    // A clock that was set back owes nothing.
    let mut back = RunSchedule::new(&file, 1).resume_from(Some(BEGIN_US + DAY_US));
    assert!(back.start_due(at(0)).is_empty());
}

#[test]
fn what_was_sent_before_a_restart_counts_and_of_yesterday_does_not() {
    let text = star(
        1,
        "bytes_per_day = \"2 GB\"",
        "kind = \"throughput\"\nevery = \"1 h\"\ndirections = \"forward\"",
    );
    let file = read(&text, None).expect("right");
    let day = BEGIN_US.div_euclid(DAY_US);
    for (day, fits) in [(day, false), (day - 1, true)] {
        let spent = BudgetUsage {
            day,
            all: 1_500_000_000,
            measures: [("m".to_owned(), 1_500_000_000)].into(),
        };
        let mut schedule = RunSchedule::new(&file, 1).with_usage(&spent);
        assert!(schedule.start_due(at(0)).is_empty());
        let key = schedule.jobs().next().expect("a job").key.clone();
        schedule.request_run(&key, at(1)).expect("asked");
        assert_eq!(schedule.start_due(at(1)).len(), usize::from(fits), "{day}");
    }
}

#[test]
fn a_heavy_run_waits_for_runs_of_others_on_its_host_which_then_takes_no_more() {
    let mut schedule = schedule(1, "", "kind = \"throughput\"\nevery = \"1 h\"");
    let due = at(schedule.next_at().expect("a run") - BEGIN_US);
    schedule.set_host_in_use(true);
    assert!(schedule.start_due(due).is_empty());
    assert!(schedule.has_heavy_run(), "it waits");
    schedule.set_host_in_use(false);
    let started = schedule.start_due(due);
    assert_eq!(started.len(), 1);
    assert!(schedule.has_heavy_run(), "it is in progress");
    for start in started {
        schedule.finish_run(&start.id, done(&start), due);
    }
    assert!(!schedule.has_heavy_run(), "it has ended");
}
