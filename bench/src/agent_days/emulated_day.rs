//! One day: its path, the agent's file, and the agent's result.

use super::path_story::{PathStory, STORIES};
use crate::scratch_folder::ScratchFolder;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use xtask::program_runner;

/// The duration of a day in seconds.
const LASTS_S: u64 = 600;
/// The acceleration; a real day has 86,400 seconds.
const ACCELERATION: u64 = 86_400 / LASTS_S;
/// Time for setting up the path, the last runs, and cleaning up.
const MARGIN: Duration = Duration::from_secs(120);
/// The maximum distance in seconds between the real change and that of an event.
const BEFORE_S: f64 = 60.0;
const AFTER_S: f64 = 180.0;

/// A path, and the change that happens to it.
#[derive(Debug, Clone)]
pub struct EmulatedDay {
    pub seed: u64,
    pub story: PathStory,
    /// The time of the change, in seconds after the path was set up.
    at_s: u64,
    /// The rate of the narrow link in Mbit/s.
    rate: u64,
    /// The one-way delay of the sea link in ms.
    sea: u64,
}

impl EmulatedDay {
    /// Generates a day from a seed, always the same one.
    pub fn from_seed(seed: u64) -> EmulatedDay {
        // Odd multipliers spread neighbouring seeds over each range.
        let within = |salt: u64, range: std::ops::Range<u64>| {
            range.start + (seed * 7919 + salt * 104_729) % (range.end - range.start)
        };
        EmulatedDay {
            seed,
            story: STORIES[(seed as usize - 1) % STORIES.len()],
            at_s: within(1, LASTS_S * 2 / 5..LASTS_S * 3 / 5),
            rate: within(2, 40..61),
            sea: within(3, 10..45),
        }
    }

    /// Runs the day; `keep` is the folder for its archive.
    pub fn run(
        &self,
        longhaul: &Path,
        scratch: &ScratchFolder,
        keep: Option<&Path>,
    ) -> Result<DayResult, String> {
        let seed = self.seed;
        let path = scratch.write(&format!("day-{seed}.toml"), &self.path_file())?;
        let archive = scratch.path(&format!("day-{seed}.sqlite"));
        let watch = scratch.write(&format!("watch-{seed}.toml"), &self.watch_file(&archive))?;
        let mut lab = Command::new(longhaul);
        lab.args(["lab", "run"]).arg(&path).arg("--");
        add_agent(&mut lab, longhaul, LASTS_S, &watch);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let began_us = since.as_micros() as i64;
        let output =
            program_runner::capture_output(&mut lab, Duration::from_secs(LASTS_S) + MARGIN)?;
        let events = read_events(longhaul, &archive).map_err(|why| {
            let said: Vec<&str> = output.stderr.lines().rev().take(3).collect();
            format!("{why}; the agent said: {}", said.join(" / "))
        })?;
        if let Some(keep) = keep {
            let kept = keep.join(format!("day-{seed}.sqlite"));
            std::fs::copy(&archive, &kept)
                .map_err(|e| format!("cannot keep {}: {e}", kept.display()))?;
        }
        let deed_us = began_us + 1_000_000 * i64::try_from(self.at_s).unwrap_or(0);
        Ok(DayResult::of(&self.story, deed_us, &events))
    }

    fn path_file(&self) -> String {
        let rate = self.rate;
        let (low, high, cross) = (rate / 2, rate * 7 / 10, rate / 5);
        let mut text = format!(
            "name = \"day {}: {}\"\nmtu = 1500\nseed = {}\n",
            self.seed, self.story.name, self.seed
        );
        text += &format_hops("[[hops]]", self.sea, (rate, cross), 3);
        text += &format_hops("[[routes.longer]]", self.sea + self.sea / 4 + 4, (rate, cross), 4);
        text += &format_hops("[[routes.slower]]", self.sea, (low, cross), 4);
        let event = self.story.event.replace("AT", &self.at_s.to_string());
        let event = event.replace("LOW", &low.to_string());
        let event = event.replace("HIGH", &high.to_string());
        text + "[[events]]\n" + &event + "\n"
    }

    fn watch_file(&self, archive: &Path) -> String {
        format!(
            "[agent]\nname = \"near\"\narchive = \"{}\"\nlisten = \"127.0.0.1:{}\"\n\
             rate = \"1 Gbit/s\"\njitter = \"0 s\"\n\
             [[host]]\nname = \"far\"\nrate = \"100 Mbit/s\"\n[[target]]\nhost = \"far\"\n\
             [[measure]]\nname = \"route\"\nkind = \"path\"\ncount = 5\nevery = \"10 s\"\n\
             [[measure]]\nname = \"avail\"\nkind = \"available\"\nmode = \"light\"\nevery = \"8 s\"\n\
             [[measure]]\nname = \"bulk\"\nkind = \"throughput\"\ntime = \"4 s\"\n\
             directions = \"forward\"\nevery = \"20 s\"\n\
             [detect]\nfollow_ups = true\n",
            archive.display(),
            10_000 + self.seed,
        )
    }
}

/// Describes hops from the campus over the sea to the far host; the narrow link is before the last.
fn format_hops(head: &str, sea_ms: u64, (rate, cross): (u64, u64), between: u64) -> String {
    let mut text = String::new();
    let mut hop = |name: &str, delay: &str, rest: &str| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{head}\nname = \"{name}\"\ndelay = \"{delay}\"\n{rest}\n");
    };
    let fast = "rate = \"1 Gbit/s\"\nqueue = \"20 ms\"";
    hop("campus", "0.2 ms", fast);
    for number in 2..between {
        hop(&format!("{sea_ms}-core-{number}"), "0.5 ms", fast);
    }
    hop(&format!("{sea_ms}-sea"), &format!("{sea_ms} ms"), fast);
    let narrow = format!(
        "rate = \"{rate} Mbit/s\"\nqueue = \"40 ms\"\n\
         cross = {{ rate = \"{cross} Mbit/s\", pattern = \"poisson\" }}"
    );
    hop(&format!("{rate}-access"), "0.5 ms", &narrow);
    hop("far-host", "0.1 ms", fast);
    text
}

/// Adds an agent, accelerated, that runs for a time; it ends as usual, by a signal, and completes its
/// runs.
pub fn add_agent(lab: &mut Command, longhaul: &Path, lasts_s: u64, watch: &Path) {
    lab.env("LONGHAUL_TIME_FACTOR", ACCELERATION.to_string());
    lab.args(["timeout", "--signal=TERM", &lasts_s.to_string()]);
    lab.arg(longhaul).arg("watch").arg(watch);
}

/// Returns the events of an agent's archive.
pub fn read_events(longhaul: &Path, archive: &Path) -> Result<Vec<Value>, String> {
    let mut report = Command::new(longhaul);
    report.args(["report", "events", "--json", "--archive"]).arg(archive);
    let text = program_runner::capture_stdout(&mut report, Duration::from_secs(30))?;
    serde_json::from_str(&text).map_err(|e| format!("the events cannot be read: {e}"))
}

/// The agent's result for a day.
#[derive(Debug, Clone)]
pub struct DayResult {
    /// The quantities in which the change was found, earliest notification first, with their first
    /// cause.
    found: Vec<(String, Option<String>)>,
    /// The seconds between the change and the first notification.
    notified_s: Option<f64>,
    /// Events unrelated to the change, as `quantity` and time.
    others: Vec<String>,
}

impl DayResult {
    fn of(story: &PathStory, deed_us: i64, events: &[Value]) -> DayResult {
        let mut lived = DayResult { found: Vec::new(), notified_s: None, others: Vec::new() };
        let mut events: Vec<&Value> = events.iter().collect();
        events.sort_by_key(|event| event["announced_at_us"].as_i64());
        for event in events {
            let after_s = |time: &Value| time.as_i64().map(|us| (us - deed_us) as f64 / 1e6);
            let quantity = event["quantity"].as_str().unwrap_or_default();
            let times = (after_s(&event["between_us"][0]), after_s(&event["between_us"][1]));
            let near = matches!(times, (Some(a), Some(b)) if b > -BEFORE_S && a < AFTER_S);
            if near && story.moves.contains(&quantity) {
                let cause = event["causes"][0]["cause"].as_str().map(str::to_owned);
                lived.found.push((quantity.to_owned(), cause));
                let told = after_s(&event["announced_at_us"]);
                lived.notified_s = lived.notified_s.or(told);
            } else if !near {
                let at = times.1.unwrap_or(f64::NAN);
                lived.others.push(format!("{quantity} at {at:+.0} s"));
            }
        }
        lived
    }

    pub fn is_found(&self) -> bool {
        !self.found.is_empty()
    }

    /// Reports whether most events of the change have the right cause first.
    pub fn is_right(&self, story: &PathStory) -> bool {
        let right = self.found.iter().filter(|(_, cause)| {
            let cause = cause.as_deref();
            cause.is_some_and(|cause| story.causes.contains(&cause))
        });
        2 * right.count() > self.found.len()
    }

    pub fn line(&self) -> String {
        let found: Vec<String> = self
            .found
            .iter()
            .map(|(quantity, cause)| {
                format!("{quantity} by {}", cause.as_deref().unwrap_or("nobody knows what"))
            })
            .collect();
        format!("{}; others: {}", found.join(", "), self.others.join(", "))
    }

    /// Returns the cells of the table after the story's name.
    pub fn cells(&self, story: &PathStory) -> Vec<String> {
        let list = |pick: fn(&(String, Option<String>)) -> &str| {
            let mut words: Vec<&str> = self.found.iter().map(pick).collect();
            words.dedup();
            words.join(", ")
        };
        vec![
            list(|(quantity, _)| quantity),
            self.notified_s.map_or_else(String::new, |s| format!("{s:.0}")),
            list(|(_, cause)| cause.as_deref().unwrap_or("none")),
            if self.is_right(story) { "right" } else { "no" }.to_owned(),
            self.others.join(", "),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(quantity: &str, at_us: i64, cause: &str) -> Value {
        json!({
            "quantity": quantity, "between_us": [at_us - 1_000_000, at_us],
            "announced_at_us": at_us + 30_000_000, "causes": [{ "cause": cause }],
        })
    }

    #[test]
    fn an_event_is_of_the_story_by_its_quantity_and_time() {
        let story = &STORIES[2];
        let deed_us = 1_000_000_000;
        let events = [
            event("capacity", deed_us + 4_000_000, "capacity_change"),
            event("available", deed_us + 9_000_000, "cross_traffic"),
            event("goodput", deed_us + 9_000_000, "capacity_change"),
            event("goodput", deed_us - 200_000_000, "capacity_change"),
        ];
        let lived = DayResult::of(story, deed_us, &events);
        assert!(lived.is_found() && lived.is_right(story), "{lived:?}");
        assert_eq!(lived.others, ["goodput at -200 s"]);
        assert_eq!(lived.notified_s, Some(34.0));
        assert!(!DayResult::of(story, deed_us, &events[1..2]).is_right(story));
        assert!(!DayResult::of(story, deed_us, &[]).is_found());
    }

    #[test]
    fn days_differ_and_every_story_comes_four_times() {
        let days: Vec<EmulatedDay> = (1..=20).map(EmulatedDay::from_seed).collect();
        for story in STORIES {
            assert_eq!(days.iter().filter(|day| day.story == *story).count(), 4);
        }
        assert!(days.iter().all(|day| (240..360).contains(&day.at_s)));
        assert_ne!(days[0].path_file(), days[5].path_file());
    }
}
