//! NTttcp text output: tables whose header is underlined with `=`, with or without line breaks.
//!
//! A table is found by the column names before its underline, and each row has one number for each
//! column. So a log without its line breaks, as in the seed of 2004, is read as well.

use crate::printed_numbers::{half_unit_of_last_digit, parse_scaled, parse_whole};
use crate::{ImportFormat, ImportedResult, MAX_RESULTS, sanitize_text};
use longhaul_model::report::v1::imported::{ImportedStream, ImportedTransfer, PrintedFigure};

/// All known column names; some consist of several words.
const COLUMN_NAMES: [&str; 29] = [
    "Thread",
    "Realtime(s)",
    "realtime(s)",
    "Time(s)",
    "Throughput(KB/s)",
    "Throughput(Mbit/s)",
    "Throughput(MB/s)",
    "Throughput(Buffers/s)",
    "Avg B / Compl",
    "Total Bytes(MEG)",
    "Bytes(MEG)",
    "Average Frame Size",
    "Avg Frame Size",
    "Total Throughput(Mbit/s)",
    "Total Buffers",
    "Buffers",
    "Pkts(sent/intr)",
    "Intr(count/s)",
    "Cycles/Byte",
    "DPCs(count/s)",
    "Pkts(num/DPC)",
    "Pkts(num/intr)",
    "Packets Sent",
    "Packets Received",
    "Total Retransmits",
    "Retransmits",
    "Total Errors",
    "Errors",
    "Avg. CPU %",
];

/// A table: its column names, and its rows as printed.
struct NtttcpTable<'a> {
    names: Vec<&'static str>,
    rows: Vec<Vec<&'a str>>,
    /// The index of the word at which the underline begins.
    underline_index: usize,
}

pub(crate) fn parse_ntttcp_text(text: &str) -> Vec<ImportedResult> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let tables = find_tables(&words);
    let mut found: Vec<ImportedResult> = Vec::new();
    let mut from = 0;
    for table in tables {
        if table.names.first() == Some(&"Thread") {
            if found.len() > MAX_RESULTS {
                break;
            }
            found.push(start_result(&words[from..table.underline_index], text));
            from = table.underline_index;
            let one = found.last_mut().expect("just pushed");
            read_threads(one, &table);
        } else if let Some(one) = found.last_mut() {
            read_totals(one, &table);
        }
    }
    found.iter_mut().for_each(finish_result);
    found
}

fn find_tables<'a>(words: &[&'a str]) -> Vec<NtttcpTable<'a>> {
    let is_line = |word: &str| word.len() > 1 && word.bytes().all(|b| b == b'=');
    let mut tables = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let columns = words[at..].iter().take_while(|word| is_line(word)).count();
        if columns == 0 {
            at += 1;
            continue;
        }
        let begin = at;
        at += columns;
        let Some(names) = match_column_names(&words[..begin], columns) else {
            continue;
        };
        let mut rows = Vec::new();
        while let Some(row) = words.get(at..at + columns)
            && row.iter().all(|word| parse_scaled(word, 1.0).is_some())
        {
            rows.push(row.to_vec());
            at += columns;
            // Only thread tables have several rows.
            if names[0] != "Thread" {
                break;
            }
        }
        tables.push(NtttcpTable { names, rows, underline_index: begin });
    }
    tables
}

/// Returns the last `columns` column names before the underline; longer names are tried first.
fn match_column_names(words: &[&str], columns: usize) -> Option<Vec<&'static str>> {
    let mut rest = words;
    let mut names = Vec::new();
    while names.len() < columns {
        let name = COLUMN_NAMES
            .iter()
            .filter(|name| {
                let parts: Vec<&str> = name.split(' ').collect();
                rest.ends_with(&parts)
            })
            .max_by_key(|name| name.len())?;
        rest = &rest[..rest.len() - name.split(' ').count()];
        names.push(*name);
    }
    names.reverse();
    Some(names)
}

/// Finds the end that wrote the log from the words before the table, and its command line.
fn start_result(before: &[&str], text: &str) -> ImportedResult {
    let mut one = ImportedResult::new(ImportFormat::NtttcpText, "ntttcp");
    one.observation.protocol = Some("tcp".to_owned());
    let lower = |word: &&str| word.to_ascii_lowercase();
    let mut pairs = before.windows(2).rev();
    let whose = pairs.find(|pair| lower(&pair[1]).trim_end_matches(':') == "log");
    let whose = whose.map(|pair| lower(&pair[0]));
    let line = |wanted: &str| text.lines().find_map(|line| line.find(wanted).map(|at| &line[at..]));
    let (near, sends) = match (whose.as_deref(), line("ntttcps "), line("ntttcpr ")) {
        (Some("sender"), command, _) | (None, command @ Some(_), None) => (command, Some(true)),
        (Some("receiver"), _, command) | (None, None, command @ Some(_)) => (command, Some(false)),
        _ => (None, None),
    };
    one.observation.forward = Some(true);
    one.observation.command = near.map(sanitize_text);
    let maps = near.and_then(|command| command.split("-m ").nth(1));
    let far = maps.and_then(|maps| maps.split_whitespace().next()?.split(',').nth(2));
    one.observation.far = far.map(sanitize_text);
    one.observation.far_address.clone_from(&one.observation.far);
    match sends {
        Some(true) => one.observation.sender = Some(ImportedTransfer::default()),
        Some(false) => one.observation.receiver = Some(ImportedTransfer::default()),
        None => one.observation.either = Some(ImportedTransfer::default()),
    }
    one
}

fn read_threads(one: &mut ImportedResult, table: &NtttcpTable) {
    for row in &table.rows {
        let mut transfer = ImportedTransfer::default();
        let mut by_bytes = None;
        for (name, text) in table.names.iter().zip(row) {
            match *name {
                "Realtime(s)" | "Time(s)" | "realtime(s)" => {
                    transfer.duration_us = parse_scaled(text, 1e6);
                }
                "Throughput(Mbit/s)" => {
                    transfer.printed_bps = parse_scaled(text, 1e6);
                    transfer.rounding_bps = Some(half_unit_of_last_digit(text, 1e6));
                }
                "Throughput(KB/s)" => by_bytes = Some(*text),
                _ => {}
            }
        }
        // A table without a column in bits is from version 5, whose KB is 1024 bytes.
        if let (None, Some(text)) = (transfer.printed_bps, by_bytes) {
            transfer.printed_bps = parse_scaled(text, 8192.0);
            transfer.rounding_bps = Some(half_unit_of_last_digit(text, 8192.0));
        }
        let mut stream = ImportedStream { name: row[0].to_owned(), ..ImportedStream::default() };
        match (&one.observation.sender, &one.observation.receiver) {
            (Some(_), _) => stream.sender = Some(transfer),
            (_, Some(_)) => stream.receiver = Some(transfer),
            _ => stream.either = Some(transfer),
        }
        one.add_stream(stream);
    }
}

fn read_totals(one: &mut ImportedResult, table: &NtttcpTable) {
    let Some(row) = table.rows.first() else {
        let flaw = format!("the table that begins with `{}` is truncated", table.names[0]);
        one.import_caveats.push(flaw);
        return;
    };
    for (name, text) in table.names.iter().zip(row) {
        let printed = PrintedFigure { name: (*name).to_owned(), text: sanitize_text(text) };
        if one.observation.printed.len() < COLUMN_NAMES.len() {
            one.observation.printed.push(printed);
        }
    }
}

/// Computes the totals from the printed values.
fn finish_result(one: &mut ImportedResult) {
    let text = |names: &[&str]| {
        let printed = one.observation.printed.iter();
        let mut of = printed.filter(|it| names.contains(&it.name.as_str()));
        of.next().map(|it| it.text.clone())
    };
    let duration_us = text(&["Realtime(s)", "realtime(s)"]).and_then(|it| parse_scaled(&it, 1e6));
    // In version 5 a megabyte is 2^20 bytes.
    let rate = text(&["Total Throughput(Mbit/s)", "Throughput(Mbit/s)"]).map(|it| (it, 1e6));
    let rate = rate.or_else(|| Some((text(&["Throughput(MB/s)"])?, 8.0 * 1_048_576.0)));
    let printed_bps = rate.as_ref().and_then(|(it, unit)| parse_scaled(it, *unit));
    let mut total = ImportedTransfer {
        duration_us,
        printed_bps,
        rounding_bps: rate.map(|(it, unit)| half_unit_of_last_digit(&it, unit)),
        retransmitted_packets: text(&["Total Retransmits", "Retransmits"])
            .and_then(|it| parse_whole(&it)),
        ..ImportedTransfer::default()
    };
    let printed = text(&["Total Bytes(MEG)", "Bytes(MEG)"]);
    if let Some(printed) = printed {
        set_megabytes(&mut total, &printed, &mut one.import_caveats);
    }
    let sends = one.observation.sender.is_some();
    for place in
        [&mut one.observation.sender, &mut one.observation.receiver, &mut one.observation.either]
    {
        if place.is_some() {
            *place = Some(total);
        }
    }
    if let Some(bytes) = total.bytes {
        check_buffer_count(one, bytes);
    }
    one.add_missing("bytes per stream");
    one.add_missing(if sends { "receiver counts" } else { "sender counts" });
    one.add_missing("time series, round trips, congestion windows");
}

/// Sets the bytes of a transfer from its printed megabytes.
pub(crate) fn set_megabytes(
    total: &mut ImportedTransfer,
    printed: &str,
    caveats: &mut Vec<String>,
) {
    total.bytes = convert_megabytes(printed, *total);
    total.rounding_bytes = Some(half_unit_of_last_digit(printed, 1e6)).filter(|bytes| *bytes > 0);
    if total.bytes.is_none() {
        caveats.push(format!(
            "`{printed}` megabytes match the printed rate neither as 10^6 nor as 2^20 bytes"
        ));
    }
}

/// Converts megabytes to bytes. `MEG` is 10^6 bytes in one version and 2^20 in another; the printed
/// rate decides.
fn convert_megabytes(text: &str, total: ImportedTransfer) -> Option<u64> {
    let bits = total.printed_bps? as f64 * total.duration_us? as f64 / 1e6;
    let fits = |bytes: &u64| (*bytes as f64 * 8.0 / bits - 1.0).abs() < 0.01;
    [1e6, 1_048_576.0].into_iter().filter_map(|unit| parse_scaled(text, unit)).find(fits)
}

/// Checks the bytes against the number of buffers and their size on the command line.
fn check_buffer_count(one: &mut ImportedResult, bytes: u64) {
    let printed = one.observation.printed.iter();
    let mut of = printed.filter(|it| it.name == "Total Buffers");
    let count = of.next().and_then(|it| it.text.parse::<f64>().ok());
    let command = one.observation.command.as_deref();
    let size = command.and_then(|it| it.split("-l ").nth(1)?.split_whitespace().next());
    let size = size.and_then(|it| {
        let lower = it.to_ascii_lowercase();
        match lower.strip_suffix('k') {
            Some(number) => parse_scaled(number, 1024.0),
            None => parse_whole(&lower),
        }
    });
    let Some((count, size)) = count.zip(size) else {
        return;
    };
    let made = count * size as f64;
    let gap = (made - bytes as f64).abs();
    if gap > size as f64 {
        one.import_caveats.push(format!(
            "{count} buffers of {size} bytes are {:.3} MB, {:.3} MB different from the printed bytes",
            made / 1e6,
            gap / 1e6
        ));
    }
}
