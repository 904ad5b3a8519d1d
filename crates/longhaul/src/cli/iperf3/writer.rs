//! Where lines go, with what is wanted in front of each.

use super::Refusal;
use super::value::Timestamps;
use crate::cli::args::Iperf3Args;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};

/// Standard output or a file; every write is flushed, so that whoever follows sees it.
pub struct Writer {
    out: Box<dyn Write + Send>,
    /// It is a file: errors stand there too.
    pub is_file: bool,
    timestamps: Option<Timestamps>,
    title: Option<String>,
}

impl Writer {
    /// As the options say.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(args: &Iperf3Args) -> Result<Writer, Refusal> {
        let out: Box<dyn Write + Send> = match &args.logfile {
            None => Box::new(io::stdout()),
            Some(path) => {
                let file = File::options().append(true).create(true).open(path);
                Box::new(file.map_err(|error| {
                    Refusal::error(format!("unable to open log file: {}", plain(&error)))
                })?)
            }
        };
        Ok(Writer {
            out,
            is_file: args.logfile.is_some(),
            timestamps: args.timestamps.clone(),
            title: args.client.title.clone(),
        })
    }

    /// Lines, each with its end.
    ///
    /// # Errors
    /// Nobody reads any more, or the disk is full.
    pub fn lines(&mut self, text: &str) -> io::Result<()> {
        let front = self.front();
        for line in text.split_inclusive('\n') {
            self.out.write_all(front.as_bytes())?;
            self.out.write_all(line.as_bytes())?;
        }
        self.out.flush()
    }

    /// Lines of which only the first has something in front, as iperf3 shows what a server printed.
    ///
    /// # Errors
    /// As of [`Writer::lines`].
    pub fn block(&mut self, text: &str) -> io::Result<()> {
        let front = self.front();
        self.plain(&format!("{front}{text}"))
    }

    /// As it is: JSON.
    ///
    /// # Errors
    /// As of [`Writer::lines`].
    pub fn plain(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    fn front(&self) -> String {
        let mut front = self
            .timestamps
            .as_ref()
            .map_or_else(String::new, Timestamps::now);
        if let Some(title) = &self.title {
            let _ = write!(front, "{title}:  ");
        }
        front
    }
}

/// An error of the system without Rust's number behind it.
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text
        .strip_prefix("failed to lookup address information: ")
        .unwrap_or(&text);
    match text.split_once(" (os error") {
        Some((text, _)) => text.to_owned(),
        None => text.to_owned(),
    }
}
