//! `longhaul capture`: analyses, prints and anonymises packet captures.
//!
//! - [`files`]: capture files of a run, local and remote

pub mod files;

use super::args::{CaptureArgs, CaptureCommand};
use super::output;
use crate::fail::{EXPECTATION_MISSED, Fail, HOST, USAGE};
use crate::render;
use jiff::Timestamp;
use longhaul_analysis::capture::Analyser;
use longhaul_model::packet::Packet;
use longhaul_model::report::v1::capture::{Reading, SCHEMA};
use longhaul_probe::capture::anonymise;
use longhaul_probe::capture::decode;
use longhaul_probe::capture::read::{Damage, ReadError, Reader};
use serde_json::json;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;
use std::process::ExitCode;

/// A capture file opened for reading.
type Input = Reader<BufReader<File>>;

pub fn run(args: &CaptureArgs) -> Result<ExitCode, Fail> {
    match &args.command {
        CaptureCommand::Show { file, json } => show(file, *json),
        CaptureCommand::Text { file, packets } => text(file, *packets),
        CaptureCommand::Anonymise {
            from,
            to,
            overwrite,
        } => anonymised(from, to, *overwrite),
    }
}

fn show(file: &Path, as_json: bool) -> Result<ExitCode, Fail> {
    let reading = reading(open(file)?);
    if as_json {
        output::json(&json!(reading))?;
    } else {
        output::text(&render::capture::reading(&name_of(file), &reading))?;
    }
    Ok(code(reading.damage.is_some()))
}

/// Analyses all packets of a capture.
fn reading(mut input: Input) -> Reading {
    let mut analyser = Analyser::default();
    let (mut packets, mut other_packets) = (0, 0);
    let (mut first_ns, mut last_ns) = (None, 0);
    while let Some(record) = input.packet() {
        packets += 1;
        first_ns.get_or_insert(record.at_ns);
        last_ns = record.at_ns.max(last_ns);
        let (at_ns, link) = (record.at_ns, record.link_type);
        match decode::packet(at_ns, link, record.original_bytes, record.bytes) {
            Some(packet) => analyser.take(&packet),
            None => other_packets += 1,
        }
    }
    let found = analyser.finish();
    let about = input.about().clone();
    Reading {
        schema: SCHEMA.to_owned(),
        format: input.format().word().to_owned(),
        application: about.application,
        comments: about.comments,
        interfaces: about.interfaces,
        packets,
        other_packets,
        started_at: first_ns.and_then(moment),
        duration_us: last_ns.saturating_sub(first_ns.unwrap_or(last_ns)) / 1000,
        damage: input.damage().map(Damage::to_string),
        flows: found.flows,
        left_out_packets: found.left_out_packets,
        payload: found.payload,
    }
}

/// Formats a time as UTC with nanoseconds. Returns `None` if it is out of range.
fn moment(at_ns: u64) -> Option<String> {
    let at = Timestamp::from_nanosecond(i128::from(at_ns)).ok()?;
    Some(at.to_string())
}

fn text(file: &Path, most: u64) -> Result<ExitCode, Fail> {
    let (extract, damaged) = first_packets(file, most)?;
    output::text(&extract)?;
    Ok(code(damaged))
}

/// Returns the analysis of a capture, and its text.
pub fn read(file: &Path) -> Result<(Reading, String), Fail> {
    let reading = reading(open(file)?);
    let text = render::capture::reading(&name_of(file), &reading);
    Ok((reading, text))
}

/// Returns the first packets as text, and whether the file is damaged.
pub fn first_packets(file: &Path, most: u64) -> Result<(String, bool), Fail> {
    let mut input = open(file)?;
    let mut packets: Vec<Option<Packet>> = Vec::new();
    while (packets.len() as u64) < most {
        let Some(record) = input.packet() else {
            break;
        };
        let (at_ns, link) = (record.at_ns, record.link_type);
        let packet = decode::packet(at_ns, link, record.original_bytes, record.bytes);
        packets.push(packet);
    }
    let started = packets.iter().flatten().next();
    let started = started.and_then(|packet| moment(packet.at_ns));
    let damage = input.damage().map(Damage::to_string);
    let extract = render::capture::extract(&packets, started.as_deref(), damage.as_deref());
    Ok((extract, damage.is_some()))
}

fn anonymised(from: &Path, to: &Path, overwrite: bool) -> Result<ExitCode, Fail> {
    let mut input = open(from)?;
    let same = from
        .canonicalize()
        .is_ok_and(|from| to.canonicalize().is_ok_and(|to| from == to));
    if same {
        let text = format!("{} cannot be its own copy", name_of(from));
        return Err(Fail::new(USAGE, text).hint(Some("name another file to write")));
    }
    let mut copy = files::create(to, overwrite)?;
    let failed = |error: std::io::Error| {
        let mut fail = Fail::new(HOST, format!("cannot write {}", name_of(to)));
        fail.causes.push(error.to_string());
        fail.hint(Some("what is in it is not the whole; remove it"))
    };
    let done = anonymise::copy(&mut input, &mut copy).map_err(failed)?;
    copy.flush().map_err(failed)?;
    let damage = input.damage().map(Damage::to_string);
    let told = render::capture::anonymised(&name_of(to), done, damage.as_deref());
    output::text(&told)?;
    Ok(code(damage.is_some()))
}

fn code(damaged: bool) -> ExitCode {
    if damaged {
        ExitCode::from(EXPECTATION_MISSED)
    } else {
        ExitCode::SUCCESS
    }
}

fn open(file: &Path) -> Result<Input, Fail> {
    let failed = |why: &dyn std::fmt::Display, hint: &str| {
        let mut fail = Fail::new(USAGE, format!("cannot read the capture {}", name_of(file)));
        fail.causes.push(why.to_string());
        fail.hint(Some(hint))
    };
    let opened = File::open(file).map_err(|error| {
        failed(
            &error,
            "check the name; `longhaul test --capture` makes one",
        )
    })?;
    Reader::open(BufReader::new(opened)).map_err(|error| match &error {
        ReadError::Read(_) => failed(&error, "check that it is a file that can be read"),
        _ => failed(
            &error,
            "pcapng and pcap are read; unpack a packed file first",
        ),
    })
}

/// Returns the file name, sanitized for display.
fn name_of(file: &Path) -> String {
    render::capture::shown(&file.to_string_lossy())
}
