//! The files that a watch file includes: TOML with more tables, lists of hosts in the JSON format of
//! Prometheus's `file_sd_configs`, and pSConfig templates of perfSONAR. Lists and templates may also be
//! fetched from URLs.

use crate::http_client::is_url;
use crate::psconfig;
use crate::watch::watch_file::{
    FILE_BYTES_MAX, IncludedFile, IncludedVersions, SecretFileState, WatchFile, WatchFileContext,
    parse_included_files,
};
use longhaul_config::{ConfigDocument, ConfigProblems, ConfigRules, config_values};
use longhaul_model::units::Bytes;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The maximum number of included files.
const MAX_FILES: usize = 1000;

/// The key of the watch file that is needed before the others.
#[derive(Deserialize)]
struct IncludeKeys {
    #[serde(default, deserialize_with = "config_values::texts")]
    include: Vec<String>,
    #[serde(default)]
    agent: AgentName,
}

#[derive(Default, Deserialize)]
struct AgentName {
    name: Option<String>,
}

/// The included files of a watch file.
#[derive(Debug, Default)]
pub struct IncludedFiles {
    pub files: Vec<IncludedFile>,
    /// From before they were read, so that no change is missed. URLs have none.
    pub versions: IncludedVersions,
    /// Lines about what could not be taken from templates.
    pub notes: Vec<String>,
}

/// Reads the files that the text of a watch file includes, in the order of their names. Relative
/// names refer to `folder`. `agent` overrides the name of the agent in the text.
///
/// # Errors
/// The files that cannot be read, and the first error of each list of hosts and each template.
pub fn read_included_files(
    file: &str,
    text: &str,
    folder: &Path,
    agent: Option<&str>,
) -> Result<IncludedFiles, ConfigProblems> {
    let mut document = ConfigDocument::parse(file, text, ConfigRules::default())?;
    // Problems of other keys are reported when the file itself is read.
    let keys = document.read::<IncludeKeys>();
    let (patterns, name) = keys.map_or_else(Default::default, |it| (it.include, it.agent.name));
    let own: Vec<String> = agent.map(str::to_owned).or(name).into_iter().collect();
    let versions = list_versions(folder, &patterns);
    let (mut included, mut notes) = (Vec::new(), Vec::new());
    for (number, pattern) in patterns.iter().enumerate() {
        let at = format!("include.{number}");
        let paths = match expand_pattern(folder, pattern) {
            Ok(paths) if included.len() + paths.len() <= MAX_FILES => paths,
            Ok(_) => {
                document.add(&at, format!("more than {MAX_FILES} files"), "join some of them");
                break;
            }
            Err(error) => {
                let advice = "name a .toml or .json file; the last part may have a *";
                document.reject(&at, &format!("cannot be read: {error}"), advice);
                continue;
            }
        };
        for path in paths {
            let name = path.display().to_string();
            match crate::watch_file_reading::read_template_text(&path) {
                Ok(text) if is_template(&text) => {
                    let template = psconfig::convert_template(&name, &text, &own)?;
                    notes.extend(template.notes.iter().map(|note| format!("{name}: {note}")));
                    let name = format!("{name} as a watch file");
                    included.push(IncludedFile { name, text: template.tables });
                }
                Ok(text) if text.len() as u64 > FILE_BYTES_MAX => {
                    let what = format!("{name} is larger than {}", Bytes(FILE_BYTES_MAX));
                    document.add(&at, what, "split the file");
                }
                Ok(text) if is_url(&path) || path.extension().is_some_and(|it| it == "json") => {
                    let text = format_host_tables(&read_target_groups(&name, &text)?, &text);
                    included.push(IncludedFile { name, text });
                }
                Ok(text) => included.push(IncludedFile { name, text }),
                Err(error) => {
                    let what = format!("cannot read {name}: {error}");
                    document.add(&at, what, "correct it, or remove it from the list");
                }
            }
        }
    }
    document.into_result(Some(included)).map(|(files, _)| IncludedFiles { files, versions, notes })
}

/// Returns whether a text is a template of pSConfig, which is one object of JSON; no TOML begins so.
pub fn is_template(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// Parses the text of a watch file with one list of hosts, as the agent of its first host. `complete`
/// adds labels to the list; secret files are not looked at. Problems name the lines of the list.
///
/// # Errors
/// All problems of the list and the text; a list has at least two hosts.
pub fn parse_host_list(
    name: &str,
    list: &str,
    complete: &dyn Fn(serde_json::Value) -> serde_json::Value,
    text: &str,
) -> Result<WatchFile, ConfigProblems> {
    let groups = read_target_groups(name, list)?;
    let targets = groups.iter().flat_map(|it| it.targets.iter().map(move |target| (target, it)));
    let names: Vec<&str> = targets.map(|(target, group)| group.host_name(target)).collect();
    let [first, _, ..] = names[..] else {
        let advice = "list the hosts, one per line: NAME ADDRESS";
        return Err(ConfigProblems::of_file(name, "fewer than two hosts", advice));
    };
    let complete = |group: TargetGroup| {
        let labels = complete(serde_json::json!([{ "labels": group.labels }]));
        let labels = serde_json::from_value(labels[0]["labels"].clone()).unwrap_or_default();
        TargetGroup { labels, ..group }
    };
    let groups: Vec<TargetGroup> = groups.iter().cloned().map(complete).collect();
    let included = IncludedFile { name: name.to_owned(), text: format_host_tables(&groups, list) };
    let here = WatchFileContext { agent: Some(first), check_secret: &|_| SecretFileState::Private };
    parse_included_files("watch.toml", text, &[included], &here)
}

/// Returns the versions of the included files that are not URLs.
pub fn list_versions(folder: &Path, patterns: &[String]) -> IncludedVersions {
    let patterns = patterns.iter().filter(|it| !is_url(Path::new(it)));
    let paths = patterns.filter_map(|it| expand_pattern(folder, it).ok()).flatten();
    let version = |path: PathBuf| {
        let about = fs::metadata(&path);
        let size = about.as_ref().map_or(0, fs::Metadata::len);
        (path, about.and_then(|it| it.modified()).ok(), size)
    };
    paths.map(version).collect()
}

/// Returns the files of a pattern, sorted. Without a `*` it names one file, and so does a URL.
fn expand_pattern(folder: &Path, pattern: &str) -> io::Result<Vec<PathBuf>> {
    if is_url(Path::new(pattern)) {
        return Ok(vec![PathBuf::from(pattern)]);
    }
    let path = folder.join(pattern);
    let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
    let Some((begin, end)) = name.split_once('*') else {
        return Ok(vec![path]);
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(path.parent().unwrap_or(Path::new(".")))? {
        let entry = entry?.path();
        let name = entry.file_name().and_then(|it| it.to_str()).unwrap_or_default();
        // Editors keep hidden files beside those that they change.
        let fits = name.len() >= begin.len() + end.len() && !name.starts_with('.');
        if fits && name.starts_with(begin) && name.ends_with(end) && entry.is_file() {
            found.push(entry);
        }
    }
    found.sort();
    Ok(found)
}

/// A group of targets, as in Prometheus's `file_sd_configs`.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetGroup {
    /// `host` or `host:port`.
    targets: Vec<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

impl TargetGroup {
    /// Returns the label `name`, or else the host of the target.
    fn host_name<'a>(&'a self, target: &'a str) -> &'a str {
        self.labels.get("name").map_or(split_target(target).0, String::as_str)
    }
}

fn read_target_groups(name: &str, text: &str) -> Result<Vec<TargetGroup>, ConfigProblems> {
    serde_json::from_str(text).map_err(|error| {
        let advice = "write [{\"targets\": [\"host:port\"], \"labels\": {\"groups\": \"name\"}}]";
        let mut problems = ConfigProblems::of_file(name, error.to_string(), advice);
        problems.list[0].line = error.line();
        problems
    })
}

/// Converts a list of hosts into TOML. Each host is in the line of its target, so that problems
/// name the right line.
fn format_host_tables(groups: &[TargetGroup], text: &str) -> String {
    let (mut toml, mut offset, mut line) = ("host = [".to_owned(), 0, 0);
    for TargetGroup { targets, labels } in groups {
        for target in targets {
            let quoted = serde_json::Value::from(target.as_str()).to_string();
            offset = text[offset..].find(&quoted).map_or(offset, |at| offset + at);
            let target_line = text[..offset].matches('\n').count();
            toml.extend(std::iter::repeat_n('\n', target_line.saturating_sub(line)));
            line = line.max(target_line);
            toml.push_str(&format_host_table(target, labels));
            offset = (offset + quoted.len()).min(text.len());
        }
    }
    toml + "]\n"
}

/// Returns the table of a host. Labels with the names of keys of a host are its keys; others belong to
/// other programs.
fn format_host_table(target: &str, labels: &BTreeMap<String, String>) -> String {
    let quote = |text: &str| serde_json::Value::from(text).to_string();
    let (host, port) = split_target(target);
    let mut table = format!("{{ address = {}", quote(host));
    let name = labels.get("name").map_or(host, String::as_str);
    // Writing to a string does not fail.
    let _ = write!(table, ", name = {}", quote(name));
    if let Some(port) = port {
        let _ = write!(table, ", port = {port}");
    }
    for key in ["interface", "rate", "city", "token_file"] {
        if let Some(value) = labels.get(key) {
            let _ = write!(table, ", {key} = {}", quote(value));
        }
    }
    for key in ["groups", "links"] {
        if let Some(value) = labels.get(key) {
            let names: Vec<String> = value.split(',').map(|it| quote(it.trim())).collect();
            let _ = write!(table, ", {key} = [{}]", names.join(", "));
        }
    }
    for key in ["latitude", "longitude"] {
        if let Some(value) = labels.get(key) {
            let number = value.parse::<f64>().ok().filter(|it| it.is_finite());
            let value = number.map_or_else(|| quote(value), |it| format!("{it:?}"));
            let _ = write!(table, ", {key} = {value}");
        }
    }
    table + " }, "
}

/// Splits `host:port`; an IPv6 address with a port is in brackets.
fn split_target(target: &str) -> (&str, Option<u16>) {
    if let Some((host, port)) = target.rsplit_once(':')
        && let Ok(port) = port.parse()
        && (!host.contains(':') || host.ends_with(']'))
    {
        return (host, Some(port));
    }
    (target, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of the test with a watch file and what it includes.
    struct IncludeFolder(PathBuf);

    impl IncludeFolder {
        fn new(name: &str, files: &[(&str, &str)]) -> IncludeFolder {
            let path = format!("longhaul-include-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(path);
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(path.join("hosts.d")).expect("a folder");
            for (file, text) in files {
                fs::write(path.join(file), text).expect("written");
            }
            IncludeFolder(path)
        }

        /// Parses a watch file with this list of included files and one measurement.
        fn parse(&self, include: &str) -> Result<WatchFile, String> {
            let text = format!(
                "include = {include}\n[agent]\nname = \"a\"\n[[group]]\nname = \"g\"\n\
                 [[measure]]\nname = \"m\"\nkind = \"path\"\nevery = \"1 h\"\n"
            );
            let look = |_: &Path| SecretFileState::Private;
            let here = WatchFileContext { agent: None, check_secret: &look };
            let shown = |problems: ConfigProblems| {
                problems.to_string().replace(&format!("{}/", self.0.display()), "")
            };
            let included = read_included_files("w", &text, &self.0, None).map_err(shown)?;
            parse_included_files("w", &text, &included.files, &here).map_err(shown)
        }
    }

    impl Drop for IncludeFolder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const HOST: &str = "[[host]]\nname = \"NAME\"\ngroups = [\"g\"]\n";

    fn names(file: &WatchFile) -> Vec<&str> {
        file.hosts.iter().map(|it| it.name.as_str()).collect()
    }

    #[test]
    fn included_files_are_read_in_the_order_of_their_names() {
        let [b, c] = ["b", "c"].map(|name| HOST.replace("NAME", name));
        let files = [("hosts.d/2.toml", &*c), ("hosts.d/1.toml", &*b), ("hosts.d/.1.toml", "[")];
        let folder = IncludeFolder::new("order", &files);
        let file = folder.parse("\"hosts.d/*.toml\"").expect("right");
        assert_eq!(names(&file), ["b", "c", "a"]);
        assert_eq!(file.sets[0].hosts.len(), 2);
        let file = folder.parse("[\"hosts.d/2.toml\", \"hosts.d/*.json\"]").expect("right");
        assert_eq!(names(&file), ["c", "a"]);
    }

    #[test]
    fn errors_of_included_files_name_file_and_line() {
        let twice = HOST.replace("NAME", "b").repeat(2);
        let folder = IncludeFolder::new(
            "errors",
            &[
                ("hosts.d/1.toml", &*twice),
                ("hosts.d/2.toml", "\n[[host]]\nnam = \"c\"\n[retain]\n"),
            ],
        );
        let told = folder.parse("\"hosts.d/*.toml\"").expect_err("wrong");
        for line in [
            "hosts.d/1.toml:5: host.b.name: `b` is already the name of the host in line 2 of hosts.d/1.toml",
            "hosts.d/2.toml:3: host.3.nam: unknown key; did you mean `name`?",
            "hosts.d/2.toml:4: retain: is not allowed in an included file",
        ] {
            assert!(told.lines().any(|it| it.starts_with(line)), "{line} in {told}");
        }
        let gone = folder.parse("\"gone.toml\"").expect_err("absent");
        assert!(gone.starts_with("w:1: include: cannot read gone.toml: No such file"), "{gone}");
    }

    #[test]
    fn a_list_of_hosts_has_the_format_of_prometheus_and_its_errors_name_the_line() {
        let list = "[\n  {\"targets\": [\"b.example.net:5300\",\n    \"[2001:db8::1]:5301\"],\n   \
                    \"labels\": {\"groups\": \"g\", \"latitude\": \"50\", \"longitude\": \"14.5\", \"job\": \"x\"}},\n\
                    {\"targets\": [\"192.0.2.7\"], \"labels\": {\"name\": \"c\", \"groups\": \"g\"}}\n]\n";
        let folder = IncludeFolder::new("json", &[("list.json", list)]);
        let told = folder.parse("\"list.json\"").expect_err("an address is no name");
        assert!(told.starts_with("list.json:3: host.2.name: "), "{told}");
        let right = list.replace(",\n    \"[2001:db8::1]:5301\"", "");
        fs::write(folder.0.join("list.json"), right).expect("written");
        let file = folder.parse("\"list.json\"").expect("right");
        let host = &file.hosts[0];
        assert_eq!((host.name.as_str(), host.port), ("b.example.net", 5300));
        assert_eq!((host.latitude, host.longitude), (Some(50.0), Some(14.5)));
        let host = &file.hosts[1];
        assert_eq!(
            (host.name.as_str(), host.address.as_str(), host.port),
            ("c", "192.0.2.7", 5201)
        );
        fs::write(folder.0.join("list.json"), "[\n{\"targets\": 1}]").expect("written");
        let told = folder.parse("\"list.json\"").expect_err("no list");
        assert!(told.starts_with("list.json:2: "), "{told}");
    }

    #[test]
    fn a_template_of_perfsonar_is_included_for_the_name_of_the_agent() {
        let template = r#"{"addresses": {"a": {"address": "192.0.2.1"}, "b": {"address": "192.0.2.2"}},
            "groups": {"m": {"type": "mesh", "addresses": [{"name": "a"}, {"name": "b"}]}},
            "schedules": {"s": {"repeat": "PT1H"}},
            "tests": {"t": {"type": "trace", "spec": {"dest": "{% address[1] %}"}},
                "u": {"type": "dns", "spec": {}}},
            "tasks": {"t": {"group": "m", "test": "t", "schedule": "s"},
                "u": {"group": "m", "test": "u"}}}"#;
        let folder = IncludeFolder::new("template", &[("t.json", template)]);
        let file = folder.parse("\"t.json\"").expect("right");
        assert_eq!(names(&file), ["a", "b"]);
        assert_eq!(file.measures.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["m", "t"]);
        let alone = crate::watch_file_reading::read_watch_file(&folder.0.join("t.json"), Some("b"));
        let alone = alone.expect("read").expect("right");
        assert_eq!((alone.agent.name.as_str(), names(&alone)), ("b", vec!["b", "a"]));
        assert!(alone.serve.is_some());
        assert!(
            alone.notes[0].ends_with("tasks.u: tests of type dns are not measured by longhaul")
        );
        assert_eq!(alone.included.len(), 1, "a change of the template is seen");
    }

    #[test]
    fn a_file_that_changes_comes_or_goes_changes_the_versions() {
        let folder = IncludeFolder::new("versions", &[("hosts.d/1.toml", "")]);
        let patterns = ["hosts.d/*.toml".to_owned()];
        let first = list_versions(&folder.0, &patterns);
        assert_eq!(first, list_versions(&folder.0, &patterns));
        fs::write(folder.0.join("hosts.d/1.toml"), "# longer").expect("written");
        let second = list_versions(&folder.0, &patterns);
        assert_ne!(first, second);
        fs::remove_file(folder.0.join("hosts.d/1.toml")).expect("removed");
        assert_eq!(list_versions(&folder.0, &patterns), []);
    }
}
