//! Monitors both ends of a copy until both are done or one has failed.

use super::{ClientCopy, CopyError, CopyProgress, CopyWatch};
use crate::copy_threads::RunningCopy;
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::copy::{CopyObservation, CopyPoint};
use longhaul_probe::wire::{CopyEndStatus, FilesReply, FilesRequest};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Interval between status requests; the first ones follow sooner.
const STATUS_INTERVAL: Duration = Duration::from_millis(100);
const FIRST_STATUS_DELAY: Duration = Duration::from_millis(2);
/// Time without progress at both ends after which the copy fails.
const STALL_TIMEOUT: Duration = Duration::from_secs(600);
/// The maximum number of progress points in a report; beyond it, every second one is dropped.
const MAX_POINTS: usize = 600;

/// Final status of both ends, with the progress over time.
pub(super) struct FinalCopyStatus {
    near: CopyEndStatus,
    far: CopyEndStatus,
    data: Duration,
    course: Vec<CopyPoint>,
}

impl ClientCopy<'_> {
    /// Polls both ends until both are done or one has failed.
    pub(super) fn monitor(
        &mut self,
        run: &mut RunningCopy,
        watch: &mut CopyWatch<'_>,
    ) -> Result<FinalCopyStatus, CopyError> {
        let begun = Instant::now();
        let (mut look, mut course) = (FIRST_STATUS_DELAY, ProgressSeries::default());
        let (mut last, mut moved_at) = ((0, 0), begun);
        loop {
            let near = run.status();
            let FilesReply::Status(far) = self.request(FilesRequest::Status)? else {
                return self.unexpected_answer();
            };
            let data = begun.elapsed();
            let (source, target) =
                if self.request.plan.forward { (&near, &*far) } else { (&*far, &near) };
            course.add_point(data, target.moved_bytes);
            let progress = CopyProgress {
                elapsed: data,
                bytes: target.moved_bytes,
                skipped_bytes: target.held_bytes,
                total_bytes: self.total_bytes(),
                own_ends: self.read_own_ends(),
                source: source.end,
                target: target.end,
                concurrency: self.concurrency(source, target),
                idle_rtt: self.control.idle_rtt(),
            };
            let wanted = watch(&progress);
            self.check_failure(&near, &far)?;
            if near.over && far.over {
                return Ok(FinalCopyStatus {
                    data: working_time(&near, &far, data),
                    near,
                    far: *far,
                    course: course.points,
                });
            }
            let now =
                (near.moved_bytes + near.end.disk_bytes, far.moved_bytes + far.end.disk_bytes);
            if now != last {
                (last, moved_at) = (now, Instant::now());
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(CopyError::Stopped);
            }
            if moved_at.elapsed() > STALL_TIMEOUT && self.total_bytes().is_some() {
                return Err(CopyError::Network {
                    address: self.control.address(),
                    what: format!("no data was transferred for {} s", STALL_TIMEOUT.as_secs()),
                });
            }
            if let Some(wanted) = wanted {
                self.resize(run, progress.concurrency, wanted)?;
            }
            std::thread::sleep(look);
            look = (look * 2).min(STATUS_INTERVAL);
        }
    }

    /// Returns the error of the end that failed first: its own files take precedence over the
    /// connection, which ended as a consequence.
    fn check_failure(&self, near: &CopyEndStatus, far: &CopyEndStatus) -> Result<(), CopyError> {
        let address = self.control.address();
        match (near.failed.clone(), far.failed.clone()) {
            (Some(what), _) if !near.lost => Err(CopyError::Local(what)),
            (_, Some(what)) if !far.lost => Err(CopyError::Server { address, what }),
            // The other end may still report the cause.
            (Some(_), None) if !far.over => Ok(()),
            (None, Some(_)) if !near.over => Ok(()),
            (Some(what), _) | (None, Some(what)) => Err(CopyError::Network { address, what }),
            (None, None) => Ok(()),
        }
    }

    pub(super) fn observation(
        &self,
        seen: FinalCopyStatus,
        setup: Duration,
        rtt: Option<Duration>,
    ) -> CopyObservation {
        let us = |time: Duration| time.as_micros() as u64;
        let (source, target) = if self.request.plan.forward {
            (&seen.near, &seen.far)
        } else {
            (&seen.far, &seen.near)
        };
        let files = self.entries.iter().filter(|entry| !entry.folder).count() as u64;
        CopyObservation {
            files,
            folders: self.entries.len() as u64 - files,
            bytes: self.total_bytes().unwrap_or(target.moved_bytes),
            sent_bytes: source.moved_bytes,
            held_bytes: target.held_bytes,
            skipped_files: self.skipped,
            idle_rtt_us: rtt.map(us),
            setup_us: us(setup),
            data_us: us(seen.data),
            blake3: target.blake3.clone(),
            source: source.end,
            target: target.end,
            course: seen.course,
            adjustments: Vec::new(),
        }
    }

    pub(super) fn caveats(&self) -> Vec<ReportCaveat> {
        let mut caveats = Vec::new();
        if self.left_out > 0 {
            let text = format!(
                "{} entries of the source were left out: symbolic links, devices, pipes or sockets",
                self.left_out
            );
            caveats.push(ReportCaveat::new("left_out", text));
        }
        caveats
    }
}

/// Returns the longer working time of the two ends by their own clocks, which excludes polling
/// delays.
fn working_time(near: &CopyEndStatus, far: &CopyEndStatus, seen: Duration) -> Duration {
    let longer = near.end.elapsed_us.max(far.end.elapsed_us);
    Duration::from_micros(longer).min(seen)
}

/// Progress over time, thinned to a limited number of points.
#[derive(Debug, Default)]
struct ProgressSeries {
    points: Vec<CopyPoint>,
    apart: Duration,
    last: Option<Duration>,
}

impl ProgressSeries {
    fn add_point(&mut self, elapsed: Duration, bytes: u64) {
        let apart = self.apart.max(STATUS_INTERVAL / 2);
        if self.last.is_some_and(|last| elapsed < last + apart) {
            return;
        }
        self.last = Some(elapsed);
        self.points.push(CopyPoint { elapsed_us: elapsed.as_micros() as u64, bytes });
        if self.points.len() >= MAX_POINTS {
            let mut odd = false;
            self.points.retain(|_| {
                odd = !odd;
                odd
            });
            self.apart = apart * 2;
        }
    }
}
