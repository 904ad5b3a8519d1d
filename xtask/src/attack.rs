//! `cargo xtask attack`: the tests that attack longhaul, and a table of what they tried.
//!
//! A test of `attacks.toml` asserts that every attack is survived, and prints `attack: tried N`.

use crate::TaskResult;
use crate::ci::{self, TestProgram};
use serde::Deserialize;
use std::time::Instant;

/// The contents of attacks.toml.
#[derive(Deserialize)]
struct AttackFile {
    attack: Vec<AttackClass>,
}

/// The tests of one class of attacks.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AttackClass {
    class: String,
    /// Package and target, as in the names of [`TestProgram`].
    program: String,
    /// The beginning of the names of the tests; empty for all.
    #[serde(default)]
    tests: String,
}

/// Runs all attacks, prints the table, and fails if one was not survived.
pub fn run() -> TaskResult {
    let file: AttackFile = toml::from_str(include_str!("attacks.toml"))
        .map_err(|e| format!("xtask/src/attacks.toml: {e}"))?;
    let programs = ci::build_test_programs()?;
    let mut lost = 0;
    println!("| class | tried | survived | s |\n| --- | --- | --- | --- |");
    for class in &file.attack {
        let program = programs.iter().find(|it| it.name == class.program);
        let program =
            program.ok_or_else(|| format!("attacks.toml: no program {}", class.program))?;
        let began = Instant::now();
        let (tried, survived) = run_class(program, class)?;
        let seconds = began.elapsed().as_secs();
        println!("| {} | {tried} | {survived} | {seconds} |", class.class);
        lost += u64::from(survived != tried.to_string());
    }
    if lost > 0 { Err(format!("{lost} classes of attacks were not survived")) } else { Ok(()) }
}

/// Returns the number of attacks, and of those that were survived.
fn run_class(program: &TestProgram, class: &AttackClass) -> Result<(u64, String), String> {
    let output = program.run_shown(&class.tests)?;
    let counts = output.stdout.lines().filter_map(|line| {
        let (_, count) = line.split_once("attack: tried ")?;
        count.trim().parse::<u64>().ok()
    });
    let tried = counts.sum();
    if !output.status.success() {
        eprintln!("{}{}", output.stdout, output.stderr);
        return Ok((tried, "not all".to_owned()));
    }
    if tried == 0 {
        return Err(format!("{} {}: no attack was tried", class.program, class.tests));
    }
    Ok((tried, tried.to_string()))
}
