//! A scan in progress: runs probe after probe, and archives each before anything else.

use super::attempt::{self, Ending};
use super::progress::{Told, warn};
use super::{asked, history};
use crate::cli::args::TuneArgs;
use crate::cli::filing;
use crate::fail::{Fail, PEER};
use jiff::Timestamp;
use longhaul_analysis::scan::{cell, failed, probe_plan};
use longhaul_analysis::tune::Spent;
use longhaul_model::report::v1::plan::{self, Stop};
use longhaul_model::report::v1::scan::{Cell, Observation, Plan, Setting};
use longhaul_model::report::v1::{Caveat, PartOf, Throughput};
use longhaul_probe::error::ProbeError;
use longhaul_probe::throughput::Target;
use longhaul_store::Begun;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The number of attempts of a probe whose connection is lost.
const ATTEMPTS: u32 = 2;
/// The number of consecutive lost probes after which the server counts as gone.
const CUT_OFF_MOST: u32 = 3;

/// The next probe of a scan.
pub struct Wanted {
    pub index: u32,
    pub setting: Setting,
    pub forward: bool,
    pub sentinel: bool,
    pub why: Option<String>,
    pub time: Duration,
}

/// The reason why a scan cannot continue.
pub enum Halt {
    /// The server is gone; with its last error.
    FarEndGone(Fail),
    Interrupted,
}

/// A scan in progress.
pub struct Course<'a> {
    pub args: &'a TuneArgs,
    pub plan: Plan,
    pub target: Target,
    pub begun: Begun,
    pub began: Timestamp,
    pub observation: Observation,
    /// The reports of successful cells, in the same order.
    pub runs: Vec<Throughput>,
    pub caveats: Vec<Caveat>,
    pub told: Told,
    stop: Arc<AtomicBool>,
    cut_off: u32,
    /// The failure of the latest failed probe.
    pub last_failure: Option<Fail>,
    saving: bool,
}

impl<'a> Course<'a> {
    /// Starts a new scan, or resumes the one that the same command left unfinished.
    pub fn begin(
        args: &'a TuneArgs,
        (plan, target): (Plan, Target),
        idle_rtt: Duration,
        stop: Arc<AtomicBool>,
    ) -> Course<'a> {
        let (history, caveats) = history::begin(args, &plan, idle_rtt);
        let mut told = Told::new(args);
        for caveat in &caveats {
            warn(&caveat.text);
        }
        told.budget(&plan);
        let mut course = Course {
            args,
            plan,
            target,
            began: history.began,
            begun: history.begun,
            observation: Observation::default(),
            runs: Vec::new(),
            saving: !args.no_save && caveats.is_empty(),
            caveats,
            told,
            stop,
            cut_off: 0,
            last_failure: None,
        };
        for run in history.parts {
            course.take_up(run);
        }
        course.told.resumed(
            &course.begun.id,
            course.observation.cells.len(),
            &course.plan,
        );
        course
    }

    /// Adds a probe finished before the scan was resumed.
    fn take_up(&mut self, run: Throughput) {
        let Some(part) = run.run.part_of.as_ref() else {
            return;
        };
        let found = self.cell_of(part.index, &run);
        self.observation.cells.push(found);
        self.runs.push(run);
    }

    fn cell_of(&self, index: u32, run: &Throughput) -> Cell {
        let setting = Setting {
            window_bytes: run.plan.send_buffer_bytes,
            streams: run.plan.streams,
            congestion_control: run.plan.congestion_control.clone(),
            pacing_bps: run.plan.pacing_bps,
        };
        let at_us = run
            .run
            .started_at
            .parse::<Timestamp>()
            .map_or(0, |moment| micros_between(self.began, moment));
        cell(index, setting, run.observation.forward, false, at_us, run)
    }

    /// Returns the budget spent in one direction, or in both.
    pub fn spent(&self, forward: Option<bool>) -> Spent {
        let mut spent = Spent::default();
        let counted = |cell: &&Cell| forward.is_none_or(|forward| cell.forward == forward);
        for cell in self.observation.cells.iter().filter(counted) {
            spent.probes += 1;
            spent.bytes += cell.receiver_bytes.unwrap_or(0);
            spent.time += Duration::from_micros(cell.duration_us);
        }
        spent
    }

    /// Returns true if probes and result are archived.
    pub fn saving(&self) -> bool {
        self.saving
    }

    /// Returns the index after the last cell.
    pub fn next_index(&self) -> u32 {
        let indexes = self.observation.cells.iter().map(|cell| cell.index);
        indexes.max().map_or(0, |index| index + 1)
    }

    /// Runs one probe and adds its cell. A setting that is refused gives a failed cell.
    pub fn measure(&mut self, wanted: &Wanted) -> Result<Option<&Throughput>, Halt> {
        let at_us = micros_between(self.began, Timestamp::now());
        let begun = Instant::now();
        self.told.begins(wanted);
        for _ in 0..ATTEMPTS {
            let plan = self.probe_plan(wanted);
            let told = &mut self.told;
            let ending = attempt::run(&self.target, &plan, &self.stop, &mut |progress| {
                told.progress(wanted, progress);
            });
            match ending {
                Ending::Measured(outcome) => {
                    let report = filing::throughput(plan, *outcome, Some(self.part(wanted)));
                    self.keep(wanted, at_us, report);
                    return Ok(self.runs.last());
                }
                Ending::Setting(error) => {
                    self.cut_off = 0;
                    self.note_failure(wanted, (at_us, begun), error);
                    return Ok(None);
                }
                Ending::Lost(error) => self.wait_for_far_end(error)?,
                Ending::Stranger(error) => return Err(Halt::FarEndGone(error.into())),
                Ending::Interrupted => return Err(Halt::Interrupted),
            }
        }
        self.note_cut_off(wanted, (at_us, begun));
        Ok(None)
    }

    /// Returns true if the user interrupted the scan between two probes.
    pub fn interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn probe_plan(&self, wanted: &Wanted) -> plan::Plan {
        let time_us = u64::try_from(wanted.time.as_micros()).unwrap_or(u64::MAX);
        plan::Plan {
            stop: Stop::TimeUs(time_us),
            interval_us: asked::interval_us(time_us),
            ..probe_plan(&self.plan, &wanted.setting, wanted.forward)
        }
    }

    fn part(&self, wanted: &Wanted) -> PartOf {
        PartOf {
            id: self.begun.id.clone(),
            index: wanted.index,
        }
    }

    fn keep(&mut self, wanted: &Wanted, at_us: u64, mut report: Throughput) {
        if self.saving {
            filing::keep(&self.args.archive, &mut report);
        }
        let lost = |caveat: &&Caveat| caveat.code == "not_archived";
        if let Some(caveat) = report.caveats.iter().find(lost) {
            // The failure is reported once; later probes do not try the archive again.
            self.saving = false;
            self.caveats.push(caveat.clone());
        }
        self.cut_off = 0;
        let found = Cell {
            why: wanted.why.clone(),
            ..cell(
                wanted.index,
                wanted.setting.clone(),
                wanted.forward,
                wanted.sentinel,
                at_us,
                &report,
            )
        };
        self.told.ended(&found);
        self.observation.cells.push(found);
        self.runs.push(report);
    }

    fn note_failure(&mut self, wanted: &Wanted, since: (u64, Instant), error: ProbeError) {
        let fail = Fail::from(error);
        let why = std::iter::once(fail.message.clone())
            .chain(fail.causes.iter().cloned())
            .collect::<Vec<_>>()
            .join(": ");
        self.last_failure = Some(fail);
        self.push_failed(wanted, since, why);
    }

    fn note_cut_off(&mut self, wanted: &Wanted, since: (u64, Instant)) {
        let why = self
            .last_failure
            .as_ref()
            .map_or_else(String::new, |fail| fail.message.clone());
        self.push_failed(wanted, since, why);
    }

    fn push_failed(&mut self, wanted: &Wanted, (at_us, begun): (u64, Instant), why: String) {
        let found = Cell {
            why: wanted.why.clone(),
            ..failed(
                wanted.index,
                wanted.setting.clone(),
                wanted.forward,
                wanted.sentinel,
                at_us,
                u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX),
                why,
            )
        };
        self.told.ended(&found);
        self.observation.cells.push(found);
    }

    /// Waits for the server after a lost connection, and fails if it does not answer.
    fn wait_for_far_end(&mut self, error: ProbeError) -> Result<(), Halt> {
        let fail = Fail::from(error);
        self.cut_off += 1;
        self.told.waiting(&fail.message);
        let back = self.cut_off < CUT_OFF_MOST && attempt::answers_again(&self.target, &self.stop);
        if self.interrupted() {
            return Err(Halt::Interrupted);
        }
        if !back {
            return Err(Halt::FarEndGone(Fail { code: PEER, ..fail }));
        }
        self.last_failure = Some(fail);
        Ok(())
    }
}

fn micros_between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.duration_since(from).as_micros()).unwrap_or(0)
}
