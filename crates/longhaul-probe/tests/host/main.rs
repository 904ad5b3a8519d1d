//! Settings of a real kernel, written and put back, in a network namespace of this process's own.

mod crash;
mod namespace;
mod observing;
mod settings;

use std::ffi::OsString;
use std::process::ExitCode;

/// A sentence about the world, and its proof.
type Test = (&'static str, fn());

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if words.first().is_some_and(|word| word == crash::AS_WRITER) {
        crash::write_for_ever(&words[1]);
    }
    namespace::take().expect("a network namespace, for which root or user namespaces are needed");
    let wanted: Vec<&str> = words
        .iter()
        .filter_map(|word| word.to_str().filter(|word| !word.starts_with('-')))
        .collect();
    let mut failed = 0;
    for (name, test) in [settings::TESTS, crash::TESTS, observing::TESTS].concat() {
        if !wanted.is_empty() && !wanted.iter().any(|word| name.contains(word)) {
            continue;
        }
        let passed = std::panic::catch_unwind(test).is_ok();
        failed += usize::from(!passed);
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
    }
    namespace::leave();
    ExitCode::from(u8::from(failed > 0))
}
