//! Runs tests one after the other, and this executable as the lab that they test.

use longhaul_lab::catalogue;
use longhaul_lab::run::{RunRequest, run};
use longhaul_lab::runtime::Backend;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// A sentence about the world, and its proof.
pub type Test = (&'static str, fn());

/// Runs the tests whose names contain one of the words (all without words).
pub fn run_all(words: &[OsString], tests: &[Test]) -> ExitCode {
    let wanted: Vec<String> = words
        .iter()
        .filter_map(|word| word.to_str().filter(|word| !word.starts_with('-')))
        .map(str::to_owned)
        .collect();
    let mut failed = 0;
    for (name, test) in tests {
        if !wanted.is_empty() && !wanted.iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        let outcome = std::panic::catch_unwind(test);
        failed += usize::from(outcome.is_err());
        println!(
            "test {name} ... {}",
            if outcome.is_ok() { "ok" } else { "FAILED" }
        );
    }
    ExitCode::from(u8::from(failed > 0))
}

/// `PATH.toml [key=value]… [far: WORD… ] -- CMD…`, see [`Lab`].
pub fn be_the_lab(words: &[OsString]) -> ExitCode {
    let split = words.iter().position(|word| word == "--").expect("-- CMD");
    let (options, command) = (&words[..split], words[split + 1..].to_vec());
    let text: Vec<String> = options
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let sets: Vec<String> = text[1..]
        .iter()
        .filter(|word| word.contains('='))
        .cloned()
        .collect();
    let spec = catalogue::load(&text[0], &sets).unwrap_or_else(|error| panic!("{error}"));
    let mut request = RunRequest::new(spec, command);
    let far = std::env::var("TEST_FAR").expect("TEST_FAR");
    request.far_command = Some(far.split(' ').map(OsString::from).collect());
    request.far_port = std::env::var("TEST_FAR_PORT")
        .ok()
        .and_then(|port| port.parse().ok());
    request.truth = std::env::var_os("LONGHAUL_LAB_TRUTH").map(PathBuf::from);
    request.dispersion = false;
    match run(&request) {
        Ok(code) => ExitCode::from(code as u8),
        Err(error) => {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            eprintln!(
                "error: {error}: {source:?}, hint: {:?}, {:?}",
                error.hint, error.kind
            );
            ExitCode::from(99)
        }
    }
}

/// A run of the lab in a process of its own.
pub struct Lab<'a> {
    pub path: &'a str,
    pub sets: &'a [&'a str],
    pub far: &'a str,
    pub far_port: Option<u16>,
    pub backend: Backend,
    /// As user nobody, in a user namespace.
    pub unprivileged: bool,
}

/// What a run left.
pub struct Outcome {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Lab<'_> {
    pub fn command(&self, words: &[&str]) -> Command {
        let own = std::env::current_exe().expect("own executable");
        let mut command = if self.unprivileged {
            let mut command = Command::new("setpriv");
            command
                .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
                .arg(own);
            command
        } else {
            Command::new(own)
        };
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/paths");
        command.arg("as-lab");
        match self.path {
            path if path.ends_with(".toml") => command.arg(folder.join(path)),
            shipped => command.arg(shipped),
        };
        command.args(self.sets).arg("--").args(words);
        command
            .env("LONGHAUL_LAB_BACKEND", self.backend.name())
            .env("TEST_FAR", self.far);
        command
            .env_remove("LONGHAUL_LAB_TRUTH")
            .env_remove("TEST_FAR_PORT");
        if let Some(port) = self.far_port {
            command.env("TEST_FAR_PORT", port.to_string());
        }
        command
    }

    pub fn run(&self, words: &[&str]) -> Outcome {
        let output = self.command(words).output().expect("the lab's executable");
        Outcome {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}
