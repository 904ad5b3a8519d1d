//! Copies ten thousand small files: the cost of each.

use super::copy_testbed::CopyTestbed;
use super::scratch_store::ScratchStore;
use crate::BenchOutcome;
use crate::markdown_table::{MarkdownTable, format_number, median};
use std::path::Path;

const FILES: usize = 10_000;
const BYTES: usize = 4096;
const ROUNDS: usize = 3;

pub fn measure_small_files(longhaul: &Path) -> Result<BenchOutcome, String> {
    let mut table = MarkdownTable::new(
        format!("{FILES} files of {BYTES} bytes, each told to the disk before it has its name"),
        "path, files | time, s | files per second",
    );
    for (name, path, disk) in [
        ("loopback, tmpfs", None, false),
        ("loopback, disk", None, true),
        ("la-geneva, disk", Some("la-geneva"), true),
    ] {
        let ground = match path {
            None => CopyTestbed::loopback(longhaul)?,
            Some(path) => CopyTestbed::path(longhaul, path)?,
        };
        let store = if disk { ScratchStore::disk()? } else { ScratchStore::memory()? };
        let folder = create_files(&store)?;
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let _far = ground.serve(&store.empty("there")?, &[])?;
            let target = format!("{}:many", ground.address);
            let copied = ground.run_copy(&[], &[&folder, &target])?;
            if copied.count("files") != FILES as u64 {
                return Err(format!("{} files came", copied.count("files")));
            }
            times.push(copied.elapsed.as_secs_f64());
        }
        let time = median(&times);
        table.row(vec![
            name.to_owned(),
            format_number(time, 2),
            format_number(time.map(|time| FILES as f64 / time), 0),
        ]);
    }
    Ok(BenchOutcome::ungated(&[table]))
}

fn create_files(store: &ScratchStore) -> Result<String, String> {
    let folder = store.empty("many")?;
    for number in 0..FILES {
        let text = vec![(number % 251) as u8; BYTES];
        std::fs::write(folder.join(format!("file-{number:05}")), text)
            .map_err(|e| format!("cannot write small files: {e}"))?;
    }
    Ok(folder.display().to_string())
}
