//! pSConfig templates of perfSONAR as tables of a watch file: the tests that this host begins.
//!
//! A template is data of another party. Its JSON is read with serde; what longhaul cannot measure is
//! left out and said, one line for each. The names of tasks and addresses become names of the watch
//! file, which is then checked like any other. Documented in docs/perfsonar.md.
//!
//! - [`template_parts`]: the parts of a template
//! - [`address_pairs`]: the addresses of a group, and the pairs that this host measures
//! - [`template_archives`]: where results are sent
//! - [`template_variables`]: variables such as `{% address[1] %}` in the specification of a test

mod address_pairs;
mod template_archives;
mod template_parts;
mod template_variables;
#[cfg(test)]
mod tests;

use address_pairs::{OwnTest, PairFinder, SeenAddress};
use longhaul_config::config_values::is_name;
use longhaul_config::{ConfigProblems, quote_value};
use longhaul_import::parse_iso_duration;
use longhaul_model::sanitize::sanitize_line;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;
use template_archives::convert_archive;
use template_parts::{PsconfigTemplate, TemplateSchedule, TemplateTask};
use template_variables::expand_variables;

/// The maximum size of a template in bytes: 10^5 addresses with their metadata.
pub const TEMPLATE_BYTES_MAX: u64 = 64 << 20;
/// The maximum number of lines about what is left out.
const MAX_NOTES: usize = 1000;
/// The maximum length of such a line.
const MAX_NOTE_CHARS: usize = 250;

/// A template as tables of a watch file.
#[derive(Debug, Default)]
pub struct ConvertedTemplate {
    /// The name of this host: the first of those given, or else that of its address.
    pub agent: String,
    /// The tables `[[host]]`, `[[group]]`, `[[measure]]` and `[[perfsonar_archive]]`.
    pub tables: String,
    /// The parts that could not be taken, one sentence each, with its place in the template.
    pub notes: Vec<String>,
}

/// Converts a template for the host with one of these names or addresses.
///
/// # Errors
/// The text is not a template, with line and path; or none of its addresses is this host.
pub fn convert_template(
    file: &str,
    text: &str,
    host: &[String],
) -> Result<ConvertedTemplate, ConfigProblems> {
    let template = parse_template(file, text)?;
    let mut finder = PairFinder::new(&template, host);
    let Some(own) = finder.own_names().first().copied() else {
        let what = format!("no address of this template is {}", quote_value(&host.join(", ")));
        let advice = "name an address or a host of the template with --agent NAME";
        return Err(ConfigProblems::of_file(file, what, advice));
    };
    let agent = host.first().filter(|name| is_name(name)).cloned();
    let address = template.addresses[own].address.clone();
    let mut tables = TemplateTables::new(agent.unwrap_or_else(|| make_name(own)), address);
    for (name, task) in template.tasks.iter().filter(|(_, task)| !task.disabled) {
        if let Err(why) = tables.add_task(&template, &mut finder, name, task) {
            tables.note(&format!("tasks.{name}"), &why);
        }
    }
    for include in &template.includes {
        tables.note("includes", &format!("{include} is not fetched"));
    }
    Ok(tables.finish())
}

fn parse_template(file: &str, text: &str) -> Result<PsconfigTemplate, ConfigProblems> {
    let refuse = |path: &str, error: &serde_json::Error| {
        let advice = "write a template as docs/perfsonar.md describes";
        let what = sanitize_line(&error.to_string(), MAX_NOTE_CHARS);
        let mut problems = ConfigProblems::of_file(file, what, advice);
        problems.list[0].line = error.line();
        problems.list[0].key = sanitize_line(path.trim_start_matches('.'), MAX_NOTE_CHARS);
        problems
    };
    let mut reader = serde_json::Deserializer::from_str(text);
    let template = serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| refuse(&error.path().to_string(), error.inner()))?;
    reader.end().map_err(|error| refuse("", &error))?;
    Ok(template)
}

/// A host to be measured.
struct MeasuredHost {
    name: String,
    groups: BTreeSet<String>,
}

/// An archive of a template.
struct ConvertedArchive {
    table: String,
    /// The tasks that name it, or are those of a host that does.
    tasks: BTreeSet<String>,
}

/// The tables of a watch file that come from a template.
struct TemplateTables {
    agent: String,
    /// The first address of this host, by which archives know it.
    own_address: Option<String>,
    /// The archives that can be taken, by name.
    archives: BTreeMap<String, ConvertedArchive>,
    /// The tasks of this host.
    tasks: Vec<String>,
    /// By address.
    hosts: BTreeMap<String, MeasuredHost>,
    /// The names of hosts, of which each is that of one address.
    names: BTreeSet<String>,
    measures: String,
    notes: BTreeSet<String>,
}

impl TemplateTables {
    fn new(agent: String, own_address: Option<String>) -> TemplateTables {
        TemplateTables {
            names: BTreeSet::from([agent.clone()]),
            agent,
            own_address,
            archives: BTreeMap::new(),
            tasks: Vec::new(),
            hosts: BTreeMap::new(),
            measures: String::new(),
            notes: BTreeSet::new(),
        }
    }

    fn note(&mut self, place: &str, text: &str) {
        if self.notes.len() < MAX_NOTES {
            self.notes.insert(sanitize_line(&format!("{place}: {text}"), MAX_NOTE_CHARS));
        }
    }

    /// Adds the measurements of a task, one for each direction.
    fn add_task<'t>(
        &mut self,
        template: &'t PsconfigTemplate,
        finder: &mut PairFinder<'t>,
        name: &str,
        task: &'t TemplateTask,
    ) -> Result<(), String> {
        let test = template.tests.get(&task.test);
        let test = test.ok_or_else(|| format!("unknown test {}", task.test))?;
        let options = convert_spec(&test.kind, &test.spec)?;
        let tests = finder.find_tests(task)?;
        if tests.is_empty() {
            return Ok(());
        }
        let place = format!("tasks.{name}");
        let schedule = task.schedule.as_ref().map(|schedule| {
            template.schedules.get(schedule).ok_or_else(|| format!("unknown schedule {schedule}"))
        });
        let schedule = schedule.transpose()?;
        let schedule = convert_schedule(schedule.unwrap_or(&TemplateSchedule::default()))?;
        for member in options.ignored.iter().chain(&schedule.ignored) {
            self.note(&place, &format!("{member} is ignored"));
        }
        for subtask in &task.subtasks {
            self.note(&place, &format!("the subtask {subtask} is not run"));
        }
        self.add_archives(template, task, name, &tests[0]);
        let mut directions = BTreeSet::new();
        for own in tests {
            match self.add_target(name, &test.spec, &own) {
                Ok(forward) => directions.extend(forward),
                Err(why) => self.note(&place, &why),
            }
        }
        for forward in directions {
            self.add_measure(name, forward, &options, &schedule);
        }
        Ok(())
    }

    /// Adds the archives of a task and of this host that can be taken.
    fn add_archives<'t>(
        &mut self,
        template: &'t PsconfigTemplate,
        task: &'t TemplateTask,
        task_name: &str,
        test: &OwnTest<'_>,
    ) {
        let place = format!("tasks.{task_name}");
        let own_host = test.participants[test.own_index].host(template);
        let of_host = own_host.map_or(&[][..], |host| &host.archives);
        for name in task.archives.iter().chain(of_host) {
            if let Some(known) = self.archives.get_mut(name) {
                known.tasks.insert(place.clone());
                continue;
            }
            let archive = template.archives.get(name).ok_or_else(|| "it is unknown".to_owned());
            match archive.and_then(|archive| convert_archive(archive, test)) {
                Ok(table) => {
                    let tasks = BTreeSet::from([place.clone()]);
                    self.archives.insert(name.clone(), ConvertedArchive { table, tasks });
                }
                Err(why) => {
                    let text = format!("results are not sent to the archive {name}: {why}");
                    self.note(&place, &text);
                }
            }
        }
        self.tasks.push(place);
    }

    /// Adds the other end of a test to the group of its task and direction. Returns the direction:
    /// true if this host sends; `None` for a test of this host with itself.
    fn add_target(
        &mut self,
        task: &str,
        spec: &Value,
        test: &OwnTest<'_>,
    ) -> Result<Option<bool>, String> {
        let spec = expand_variables(spec, test)?;
        let text = |member: &str| spec.get(member).and_then(Value::as_str);
        let is_reverse = spec.get("reverse") == Some(&Value::Bool(true));
        let begins_as_source = test.own_index == 0;
        let own = test.participants[test.own_index];
        let first = || test.participants.first().map(SeenAddress::address);
        let target = if begins_as_source { text("dest") } else { text("source").or_else(first) };
        let target = target.filter(|it| !it.is_empty());
        let target = target.ok_or_else(|| "its test names no destination".to_owned())?;
        if target == own.address() {
            return Ok(None);
        }
        let forward = begins_as_source != is_reverse;
        let group = group_name(task, forward);
        if let Some(host) = self.hosts.get_mut(target) {
            host.groups.insert(group);
            return Ok(Some(forward));
        }
        let other = test.participants.iter().find(|it| it.address() == target);
        let (name, label) = other.map_or((target, None), |it| (it.name, it.label));
        let name = self.choose_name(name, label);
        let host = MeasuredHost { name, groups: BTreeSet::from([group]) };
        self.hosts.insert(target.to_owned(), host);
        Ok(Some(forward))
    }

    /// Returns a name that no other address has.
    fn choose_name(&mut self, name: &str, label: Option<&str>) -> String {
        let plain = make_name(name);
        let with_label = label.map(|label| make_name(&format!("{name}-{label}")));
        let numbered = (2..).map(|number| format!("{plain}-{number}"));
        let mut names = std::iter::once(plain.clone()).chain(with_label).chain(numbered);
        let name = names.find(|name| !self.names.contains(name)).unwrap_or_default();
        self.names.insert(name.clone());
        name
    }

    fn add_measure(
        &mut self,
        task: &str,
        forward: bool,
        options: &MeasureOptions,
        schedule: &ConvertedSchedule,
    ) {
        let group = quote(&group_name(task, forward));
        // Writing to a string does not fail.
        let _ = writeln!(
            self.measures,
            "\n[[group]]\nname = {group}\n\n[[measure]]\nname = {group}\nkind = {}\nevery = {}\n\
             groups = [{group}]",
            quote(options.kind),
            quote(&format_time(schedule.every)),
        );
        if let Some(jitter) = schedule.jitter {
            let _ = writeln!(self.measures, "jitter = {}", quote(&format_time(jitter)));
        }
        if options.kind == "throughput" {
            let direction = if forward { "forward" } else { "reverse" };
            let _ = writeln!(self.measures, "directions = {}", quote(direction));
        }
        for (key, value) in &options.keys {
            let _ = writeln!(self.measures, "{key} = {value}");
        }
    }

    fn finish(mut self) -> ConvertedTemplate {
        let mut tables = format!("[[host]]\nname = {}\n", quote(&self.agent));
        if let Some(address) = &self.own_address {
            let _ = writeln!(tables, "address = {}", quote(address));
        }
        for (name, ConvertedArchive { table, tasks }) in std::mem::take(&mut self.archives) {
            // A stored run does not know its task.
            for place in self.tasks.clone().iter().filter(|place| !tasks.contains(*place)) {
                self.note(place, &format!("results are sent to the archive {name}, too"));
            }
            self.measures.push_str(&table);
        }
        for (address, MeasuredHost { name, groups }) in self.hosts {
            let groups: Vec<String> = groups.iter().map(|it| quote(it)).collect();
            let (name, address) = (quote(&name), quote(&address));
            let groups = groups.join(", ");
            let _ = writeln!(
                tables,
                "\n[[host]]\nname = {name}\naddress = {address}\ngroups = [{groups}]"
            );
        }
        tables.push_str(&self.measures);
        let notes = self.notes.into_iter().collect();
        ConvertedTemplate { agent: self.agent, tables, notes }
    }
}

/// Quotes a text for TOML, whose basic strings have the escapes of JSON.
fn quote(text: &str) -> String {
    Value::from(text).to_string()
}

/// Returns the name of the group and the measurement of a task.
fn group_name(task: &str, forward: bool) -> String {
    make_name(&format!("{task}{}", if forward { "" } else { "-reverse" }))
}

/// Replaces the letters that a name of a watch file does not have.
fn make_name(text: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    text.chars().map(legal).collect()
}

fn format_time(time: Duration) -> String {
    format!("{} s", time.as_secs())
}

/// A schedule in terms of a watch file.
struct ConvertedSchedule {
    every: Duration,
    jitter: Option<Duration>,
    ignored: Vec<String>,
}

fn convert_schedule(schedule: &TemplateSchedule) -> Result<ConvertedSchedule, String> {
    if schedule.repeat_cron.is_some() {
        return Err("the schedule repeat-cron is not followed; use repeat".to_owned());
    }
    let Some(repeat) = &schedule.repeat else {
        return Err("it has no schedule that repeats".to_owned());
    };
    let read = |text: &String| {
        parse_iso_duration(text).ok_or_else(|| format!("{text} is not a duration of ISO 8601"))
    };
    let every = read(repeat)?;
    let jitter = schedule.slip.as_ref().map(read).transpose()?.map(|slip| slip.min(every / 2));
    let bounds = [
        ("start", schedule.start.is_some()),
        ("until", schedule.until.is_some()),
        ("max-runs", schedule.max_runs.is_some()),
    ];
    let ignored =
        bounds.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name.to_owned()).collect();
    Ok(ConvertedSchedule { every, jitter, ignored })
}

/// The keys of a measurement that come from the specification of a test.
struct MeasureOptions {
    kind: &'static str,
    /// Keys and values in TOML.
    keys: Vec<(&'static str, String)>,
    /// Members that have no key.
    ignored: Vec<String>,
}

/// The members of a specification that the addresses of the pairs say already, or that are only
/// about how another tool measures.
const OTHER_MEMBERS: [&str; 12] = [
    "schema",
    "source",
    "dest",
    "source-node",
    "dest-node",
    "reverse",
    "interval",
    "link-rtt",
    "hostnames",
    "as",
    "flip",
    "single-ended",
];

fn convert_spec(test: &str, spec: &Value) -> Result<MeasureOptions, String> {
    let kind = match test {
        "throughput" => "throughput",
        "rtt" | "trace" | "mtu" => "path",
        "latency" | "latencybg" => {
            return Err(format!(
                "tests of type {test} are not measured: one-way delay on a schedule"
            ));
        }
        other => return Err(format!("tests of type {other} are not measured by longhaul")),
    };
    let mut options = MeasureOptions { kind, keys: Vec::new(), ignored: Vec::new() };
    for (name, value) in spec.as_object().into_iter().flatten() {
        let number = value.as_u64();
        let word = value.as_str();
        match (test, name.as_str()) {
            ("throughput", "udp") if value == false => {}
            ("throughput", "udp") => return Err("UDP is not measured on a schedule".to_owned()),
            ("throughput", "duration") => {
                let time = word.and_then(parse_iso_duration);
                let time = time.ok_or_else(|| format!("{value} is not a duration of ISO 8601"))?;
                options.keys.push(("time", quote(&format_time(time))));
            }
            ("throughput", "parallel") if number.is_some() => {
                options.keys.push(("streams", value.to_string()));
            }
            ("throughput", "window-size") if number.is_some() => {
                options.keys.push(("window", quote(&format!("{value} B"))));
            }
            ("throughput", "bandwidth") if number.is_some() => {
                options.keys.push(("rate", quote(&format!("{value} bit/s"))));
            }
            ("throughput", "congestion") if word.is_some() => {
                options.keys.push(("congestion_control", value.to_string()));
            }
            ("rtt", "count") if number.is_some() => options.keys.push(("count", value.to_string())),
            ("rtt", "protocol") if word == Some("icmp") => {}
            ("rtt", "protocol") => {
                return Err(format!("the protocol {value} of rtt is not measured"));
            }
            ("trace", "probe-type") if word.is_some() => {
                options.keys.push(("protocol", value.to_string()));
            }
            (_, name) if OTHER_MEMBERS.contains(&name) => {}
            (_, name) => options.ignored.push(name.to_owned()),
        }
    }
    Ok(options)
}
