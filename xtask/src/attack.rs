//! `cargo xtask attack`: the tests that attack longhaul, and a table of what they tried.
//!
//! A test of `attacks.toml` asserts that every attack is survived, and prints `attack: tried N`.

use crate::TaskResult;
use crate::ci::{self, TestProgram};
use serde::Deserialize;
use std::collections::BTreeMap;
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
    /// Package and target, as in the names of [`TestProgram`], and parts of the names of the tests;
    /// none for all.
    programs: BTreeMap<String, Vec<String>>,
}

/// Runs all attacks, prints the table, and fails if one was not survived.
pub fn run() -> TaskResult {
    let file: AttackFile = toml::from_str(include_str!("attacks.toml"))
        .map_err(|e| format!("xtask/src/attacks.toml: {e}"))?;
    let programs = ci::build_test_programs()?;
    let mut lost = 0;
    println!("| class | tried | survived | s |\n| --- | --- | --- | --- |");
    for class in &file.attack {
        let began = Instant::now();
        let (mut tried, mut is_survived) = (0, true);
        for (name, tests) in &class.programs {
            let program = programs.iter().find(|it| it.name == *name);
            let program = program.ok_or_else(|| format!("attacks.toml: no program {name}"))?;
            let (count, all) = run_tests(program, tests)?;
            tried += count;
            is_survived &= all;
        }
        let survived = if is_survived { tried.to_string() } else { "not all".to_owned() };
        let seconds = began.elapsed().as_secs();
        println!("| {} | {tried} | {survived} | {seconds} |", class.class);
        lost += u64::from(!is_survived);
    }
    if lost > 0 { Err(format!("{lost} classes of attacks were not survived")) } else { Ok(()) }
}

/// Returns the number of attacks, and whether all were survived.
fn run_tests(program: &TestProgram, tests: &[String]) -> Result<(u64, bool), String> {
    let output = program.run_shown(tests)?;
    let counts = output.stdout.lines().filter_map(|line| {
        let (_, count) = line.split_once("attack: tried ")?;
        count.trim().parse::<u64>().ok()
    });
    let tried = counts.sum();
    let is_survived = output.status.success();
    if !is_survived {
        eprintln!("{}{}", output.stdout, output.stderr);
    } else if tried == 0 {
        return Err(format!("{} {tests:?}: no attack was tried", program.name));
    }
    Ok((tried, is_survived))
}
