//! The tools of `longhaul mcp`: each is a command of this program, with typed arguments.

use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// A tool that a client can call.
pub struct McpTool {
    pub name: &'static str,
    title: &'static str,
    description: &'static str,
    /// The command.
    words: &'static [&'static str],
    /// The command if the argument `id` is given.
    words_with_id: &'static [&'static str],
    arguments: &'static [ToolArgument],
    /// False if the tool sends traffic.
    pub is_read_only: bool,
}

struct ToolArgument {
    name: &'static str,
    /// The option that takes the value; `None` for values without an option.
    option: Option<&'static str>,
    value: ValueShape,
    description: &'static str,
    is_required: bool,
}

/// The values that an argument may have.
enum ValueShape {
    Text,
    /// At most [`MAX_TEXTS`] texts.
    Texts,
    Flag,
    Count {
        max: u64,
    },
    /// A time in whole seconds, by which the deadline of the call is longer.
    Seconds {
        max: u64,
    },
    /// `json`, the default, or `markdown`.
    Format,
}

/// The command of a call.
#[derive(Debug, PartialEq, Eq)]
pub struct ToolCommand {
    pub words: Vec<OsString>,
    /// The values that follow the options.
    positions: Vec<String>,
    pub deadline: Duration,
    pub is_json: bool,
}

const MAX_TEXT_CHARS: usize = 256;
const MAX_TEXTS: usize = 64;
/// The time for everything besides the measurement itself.
const DEADLINE: Duration = Duration::from_secs(60);

const fn text(name: &'static str, option: &'static str, description: &'static str) -> ToolArgument {
    let option = Some(option);
    ToolArgument { name, option, value: ValueShape::Text, description, is_required: false }
}

const fn flag(name: &'static str, option: &'static str, description: &'static str) -> ToolArgument {
    ToolArgument { value: ValueShape::Flag, ..text(name, option, description) }
}

const fn position(name: &'static str, description: &'static str) -> ToolArgument {
    ToolArgument { option: None, ..text(name, "", description) }
}

const fn format() -> ToolArgument {
    let description = "json: the whole report, up to some 100 KB; markdown: its text";
    ToolArgument { value: ValueShape::Format, ..text("format", "", description) }
}

const fn seconds(option: &'static str) -> ToolArgument {
    let value = ValueShape::Seconds { max: 60 };
    ToolArgument { value, ..text("seconds", option, "Duration of the measurement [default: 10]") }
}

const fn count(name: &'static str, option: &'static str, max: u64) -> ToolArgument {
    ToolArgument { value: ValueShape::Count { max }, ..text(name, option, "") }
}

/// All tools, in the order of their list.
pub const MCP_TOOLS: &[McpTool] = &[
    McpTool {
        name: "reports",
        title: "Archived runs",
        description: "Lists archived measurements, newest first; with `id`, returns the report of one.",
        words: &["report", "list"],
        words_with_id: &["report", "show"],
        arguments: &[
            position("id", "Id of a run, its first letters, or `last`"),
            position("host", "Only runs from or to hosts with this in their name"),
            text("kind", "--kind", "Only runs of this kind, such as throughput, path or scan"),
            text("since", "--since", "Only runs since this date or time (UTC), or 2h, 3d, 1w ago"),
            text("environment", "--environment", "network, loopback, lab or lab:NAME"),
            ToolArgument {
                description: "Maximum number of runs [default: 20]",
                ..count("limit", "--limit", 1000)
            },
            format(),
        ],
        is_read_only: true,
    },
    McpTool {
        name: "events",
        title: "Lasting changes",
        description: "Lists lasting changes of paths and their causes, which the agent of \
                      `longhaul watch` has found, newest first; with `id`, returns one.",
        words: &["report", "events"],
        words_with_id: &["report", "event"],
        arguments: &[
            position("id", "Id of an event, or its first letters"),
            position("host", "Only paths from or to this host"),
            text("since", "--since", "Only changes since this date or time (UTC) [default: 30d]"),
            flag("all", "--all", "Include withdrawn suspicions"),
        ],
        is_read_only: true,
    },
    McpTool {
        name: "case",
        title: "Comparison of two periods",
        description: "Compares paths in two periods: changes, their significance and causes. Needs \
                      `event`, or `hosts` with `at` or with `before` and `after`.",
        words: &["report", "case"],
        words_with_id: &[],
        arguments: &[
            ToolArgument {
                value: ValueShape::Texts,
                ..position("hosts", "Hosts, as named in the runs")
            },
            text("event", "--event", "Event between the two periods"),
            text("at", "--at", "Time of the change, between the two periods"),
            text("before", "--before", "Earlier period: FROM..TO, or a date"),
            text("after", "--after", "Later period: FROM..TO, FROM.. (until now), or a date"),
            text("span", "--span", "Maximum length of the periods [default: 7d]"),
            text("environment", "--environment", "network, loopback, lab, lab:NAME or all"),
            format(),
        ],
        is_read_only: true,
    },
    McpTool {
        name: "explain",
        title: "Limits of transfers",
        description: "Watches the TCP transfers of other programs on this host and says what limits \
                      them. Sends nothing, changes nothing and archives nothing.",
        words: &["explain", "--no-save", "--quiet"],
        words_with_id: &[],
        arguments: &[
            position("what", "A process, a :port, a peer, or all [default: all]"),
            seconds("--for"),
            format(),
        ],
        is_read_only: true,
    },
    McpTool {
        name: "test",
        title: "Throughput test",
        description: "Measures throughput to a longhaul or iperf3 server, says what limited it, and \
                      archives the report. Loads the path for its duration.",
        words: &["test", "--quiet"],
        words_with_id: &[],
        arguments: &[
            ToolArgument {
                is_required: true,
                ..position("host", "Name or address of the server, or HOST:PORT, [IPV6]:PORT")
            },
            seconds("--time"),
            ToolArgument {
                description: "Number of streams in each direction [default: 1]",
                ..count("streams", "--streams", 128)
            },
            flag("reverse", "--reverse", "The server sends"),
            flag("bidir", "--bidir", "Both directions at once"),
            flag("udp", "--udp", "Use UDP and measure loss and jitter"),
            text("bitrate", "--bitrate", "Total rate, such as 100M [default: unlimited, UDP: 1M]"),
            text("window", "--window", "Send and receive buffer size at both ends, such as 4M"),
            text("congestion_control", "--congestion-control", "Such as cubic or bbr"),
            format(),
        ],
        is_read_only: false,
    },
];

impl McpTool {
    /// Returns the entry of `tools/list`.
    pub fn describe(&self) -> Value {
        let properties: Map<String, Value> = self
            .arguments
            .iter()
            .map(|argument| (argument.name.to_owned(), argument.describe()))
            .collect();
        let required: Vec<&str> = self
            .arguments
            .iter()
            .filter(|argument| argument.is_required)
            .map(|argument| argument.name)
            .collect();
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": {
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            },
            "annotations": {
                "readOnlyHint": self.is_read_only,
                "destructiveHint": false,
                "openWorldHint": !self.is_read_only,
            },
        })
    }

    /// Returns the command of a call, or the first argument that is wrong.
    pub fn build_command(&self, arguments: &Value) -> Result<ToolCommand, String> {
        let empty = Map::new();
        let given = match arguments {
            Value::Null => &empty,
            Value::Object(given) => given,
            _ => return Err("arguments: must be an object".to_owned()),
        };
        let is_known = |name: &str| self.arguments.iter().any(|argument| argument.name == name);
        if let Some(name) = given.keys().find(|name| !is_known(name)) {
            return Err(format!("{name:?}: {} has no such argument", self.name));
        }
        let has_id = given.contains_key("id");
        let words = if has_id { self.words_with_id } else { self.words };
        let mut command = ToolCommand {
            words: words.iter().map(OsString::from).collect(),
            positions: Vec::new(),
            deadline: DEADLINE,
            is_json: true,
        };
        for argument in self.arguments {
            match given.get(argument.name) {
                Some(value) => command.add(argument, value)?,
                None if argument.is_required => {
                    return Err(format!("{}: is missing", argument.name));
                }
                None => {}
            }
        }
        Ok(command)
    }
}

impl ToolArgument {
    fn describe(&self) -> Value {
        let mut schema = match self.value {
            ValueShape::Text => json!({ "type": "string", "maxLength": MAX_TEXT_CHARS }),
            ValueShape::Texts => json!({
                "type": "array",
                "items": { "type": "string", "maxLength": MAX_TEXT_CHARS },
                "maxItems": MAX_TEXTS,
            }),
            ValueShape::Flag => json!({ "type": "boolean" }),
            ValueShape::Count { max } | ValueShape::Seconds { max } => {
                json!({ "type": "integer", "minimum": 1, "maximum": max })
            }
            ValueShape::Format => json!({ "enum": ["json", "markdown"], "default": "json" }),
        };
        schema["description"] = json!(self.description);
        schema
    }
}

impl ToolCommand {
    fn add(&mut self, argument: &ToolArgument, value: &Value) -> Result<(), String> {
        let wrong = |wanted: String| format!("{}: must be {wanted}", argument.name);
        let as_text = |value: &Value| {
            let text = value.as_str().filter(|text| text.chars().count() <= MAX_TEXT_CHARS);
            let wanted = || wrong(format!("text of at most {MAX_TEXT_CHARS} characters"));
            text.map(str::to_owned).ok_or_else(wanted)
        };
        let as_number = |max: u64| {
            let number = value.as_u64().filter(|number| (1..=max).contains(number));
            number.ok_or_else(|| wrong(format!("an integer from 1 to {max}")))
        };
        match argument.value {
            ValueShape::Text => self.add_value(argument, as_text(value)?),
            ValueShape::Texts => {
                let texts = value.as_array().filter(|texts| texts.len() <= MAX_TEXTS);
                let texts = texts.ok_or_else(|| wrong(format!("at most {MAX_TEXTS} texts")))?;
                for value in texts {
                    self.add_value(argument, as_text(value)?);
                }
            }
            ValueShape::Flag => match value.as_bool() {
                Some(true) => self.words.extend(argument.option.map(OsString::from)),
                Some(false) => {}
                None => return Err(wrong("true or false".to_owned())),
            },
            ValueShape::Count { max } => self.add_value(argument, as_number(max)?.to_string()),
            ValueShape::Seconds { max } => {
                let number = as_number(max)?;
                self.deadline += Duration::from_secs(number);
                self.add_value(argument, format!("{number}s"));
            }
            ValueShape::Format => match value.as_str() {
                Some("json") => {}
                Some("markdown") => self.is_json = false,
                _ => return Err(wrong("json or markdown".to_owned())),
            },
        }
        Ok(())
    }

    /// Adds a value so that it cannot be taken for an option.
    fn add_value(&mut self, argument: &ToolArgument, value: String) {
        match argument.option {
            Some(option) => self.words.push(format!("{option}={value}").into()),
            None => self.positions.push(value),
        }
    }

    /// Completes the command with the form of its output and the files of this server.
    pub fn with_files(mut self, archive: &Path, token_file: Option<&Path>) -> ToolCommand {
        self.words.push(if self.is_json { "--json" } else { "--markdown" }.into());
        self.words.extend(["--archive".into(), archive.into()]);
        if let Some(file) = token_file {
            self.words.extend(["--token-file".into(), file.into()]);
        }
        self.words.push("--".into());
        self.words.extend(self.positions.drain(..).map(OsString::from));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::CliArgs;
    use clap::Parser;

    fn tool(name: &str) -> &'static McpTool {
        MCP_TOOLS.iter().find(|tool| tool.name == name).expect("a tool")
    }

    fn example(argument: &ToolArgument) -> Value {
        match argument.value {
            ValueShape::Text => json!(match argument.name {
                "kind" => "path",
                "since" | "at" | "before" => "2003-06-01",
                "after" => "2003-06-02",
                "span" => "2d",
                "environment" => "lab",
                "bitrate" | "window" => "1M",
                _ => "far",
            }),
            ValueShape::Texts => json!(["far", "near"]),
            ValueShape::Flag => json!(true),
            ValueShape::Count { max } | ValueShape::Seconds { max } => json!(max),
            ValueShape::Format => json!("json"),
        }
    }

    #[test]
    fn each_argument_alone_makes_a_command_of_the_program() {
        let needed = |name: &str, other: &str| match (name, other) {
            ("case", "at" | "span" | "environment" | "format") => json!({ "hosts": ["far"] }),
            ("case", "before") => json!({ "hosts": ["far"], "after": "2003-06-02" }),
            ("case", "after") => json!({ "hosts": ["far"], "before": "2003-06-01" }),
            ("test", _) => json!({ "host": "far" }),
            _ => json!({}),
        };
        for tool in MCP_TOOLS {
            for argument in tool.arguments {
                let mut arguments = needed(tool.name, argument.name);
                arguments[argument.name] = example(argument);
                let command = tool.build_command(&arguments).expect("right");
                let words = command.with_files(Path::new("/a"), None).words;
                let typed = std::iter::once(OsString::from("longhaul")).chain(words);
                let parsed = CliArgs::try_parse_from(typed);
                assert!(parsed.is_ok(), "{} {}: {:?}", tool.name, argument.name, parsed.err());
            }
        }
    }

    #[test]
    fn a_value_is_never_an_option() {
        let arguments = json!({ "what": "--watch" });
        let command = tool("explain").build_command(&arguments).expect("right");
        let words = command.with_files(Path::new("/a"), None).words;
        assert_eq!(words[words.len() - 2..], ["--", "--watch"]);
    }

    #[test]
    fn wrong_arguments_are_named() {
        let problem = |name: &str, arguments: Value| {
            tool(name).build_command(&arguments).expect_err("wrong arguments")
        };
        assert_eq!(problem("test", json!({})), "host: is missing");
        assert_eq!(
            problem("test", json!({ "host": "far", "seconds": 61 })),
            "seconds: must be an integer from 1 to 60"
        );
        assert_eq!(problem("events", json!({ "all": 1 })), "all: must be true or false");
        assert_eq!(
            problem("events", json!({ "token": "x" })),
            "\"token\": events has no such argument"
        );
        assert_eq!(
            problem("reports", json!({ "host": "x".repeat(257) })),
            "host: must be text of at most 256 characters"
        );
        assert_eq!(
            problem("case", json!({ "hosts": vec!["a"; 65] })),
            "hosts: must be at most 64 texts"
        );
        assert_eq!(problem("case", json!([])), "arguments: must be an object");
    }
}
