//! `[[perfsonar_archive]]`: an archive of perfSONAR to which results are sent.

use super::{WatchFile, WatchFileReader};
use longhaul_config::config_values;
use longhaul_model::sanitize::sanitize_line;
use reqwest::header::{HeaderName, HeaderValue};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The maximum number of archives that get results; each has a thread and a connection.
const MAX_ARCHIVES: usize = 16;
/// The maximum number of headers of a request.
const MAX_HEADERS: usize = 32;
/// The maximum length of a URL in a line about it.
const MAX_URL_CHARS: usize = 200;

/// An archive of perfSONAR, as pScheduler's archiver `http` has it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerfsonarArchiveSection {
    /// The whole URL, such as `https://archive.example.net/logstash`.
    #[serde(deserialize_with = "config_values::line")]
    pub url: String,
    #[serde(default)]
    pub method: ArchiveMethod,
    /// Headers of every request. Templates have secrets in them, too.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The value of the header `Authorization`.
    pub authorization_file: Option<PathBuf>,
    /// False: any certificate is accepted, as pScheduler does by default.
    #[serde(default = "default_verification")]
    pub verify_certificate: bool,
}

fn default_verification() -> bool {
    true
}

/// The HTTP method of requests to an archive. The documents are the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArchiveMethod {
    #[default]
    Post,
    Put,
}

impl WatchFileReader<'_, '_> {
    /// Checks the archives, and notes those that get no results: several tasks of a template may name
    /// the same one.
    pub(super) fn check_perfsonar_archives(&self, file: &mut WatchFile) {
        for (index, archive) in file.perfsonar_archives.iter().enumerate() {
            let at = format!("perfsonar_archive.{index}");
            let file = archive.authorization_file.as_deref();
            self.check_receiver(&at, &archive.url, "authorization_file", file);
            let is_valid = |(name, value): (&String, &String)| {
                HeaderName::try_from(name).is_ok() && HeaderValue::try_from(value).is_ok()
            };
            if archive.headers.len() > MAX_HEADERS || !archive.headers.iter().all(is_valid) {
                let advice = "write at most 32 headers, such as { x-ps-observer = \"192.0.2.1\" }";
                self.document.add(&format!("{at}.headers"), "the value is invalid", advice);
            }
        }
        let (notes, mut used) = (&mut file.notes, BTreeSet::new());
        file.perfsonar_archives.retain(|archive| {
            let is_full = used.len() == MAX_ARCHIVES;
            let is_used = !is_full && used.insert(archive.url.clone());
            if !is_used {
                let url = sanitize_line(&archive.url, MAX_URL_CHARS);
                let why = if is_full { "there are 16 archives" } else { "it is named twice" };
                notes.push(format!("no results are sent to this entry of {url}: {why}"));
            }
            is_used
        });
    }
}
