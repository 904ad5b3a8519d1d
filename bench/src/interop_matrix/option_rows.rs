//! The option rows of each pair, like those of iperf3's own `test_commands.sh`.
//!
//! Source: the client rows of `test_commands.sh` of iperf 3.22, shortened to two seconds, at rates
//! that the path carries without loss. Left out: SCTP, which many kernels lack.

use std::time::Duration;

/// Returns the options after `iperf3 -c HOST -J` of each row.
pub fn list_rows() -> Vec<&'static str> {
    include_str!("option_rows.txt").lines().collect()
}

/// The properties of a row that the checks use.
#[derive(Debug, Clone, Copy)]
pub struct OptionRow {
    pub text: &'static str,
}

impl OptionRow {
    /// Returns the options as words.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        self.text.split(' ')
    }

    pub fn has(self, option: &str) -> bool {
        self.words().any(|word| word == option)
    }

    /// Reports whether it has all options of one of the lists; one that begins with `*` may be anywhere
    /// in a word.
    pub fn has_all_of_any(self, lists: &[Vec<String>]) -> bool {
        let has = |option: &String| match option.strip_prefix('*') {
            Some(part) => self.text.contains(part),
            None => self.has(option),
        };
        lists.iter().any(|options| options.iter().all(has))
    }

    /// Returns the value of an option.
    pub fn value(self, option: &str) -> Option<&'static str> {
        self.words().skip_while(|word| *word != option).nth(1)
    }

    pub fn is_udp(self) -> bool {
        self.has("-u")
    }

    pub fn is_ipv6(self) -> bool {
        self.has("-6")
    }

    /// Returns the size of one write or read of a TCP row.
    pub fn block_bytes(self) -> f64 {
        let bytes = self.value("-l").and_then(|text| text.strip_suffix('K'));
        bytes
            .and_then(|text| text.parse().ok())
            .map_or(131_072.0, |kibibytes: f64| 1024.0 * kibibytes)
    }

    /// Returns the number of streams in each direction.
    pub fn streams(self) -> f64 {
        self.value("-P").and_then(|text| text.parse().ok()).unwrap_or(1.0)
    }

    /// Returns the approximate duration of the transfer.
    pub fn transfer_time(self, round_trip: Duration) -> Duration {
        let seconds = |option| self.value(option).and_then(|text| text.parse().ok());
        let transfer_seconds: u64 = seconds("-t").unwrap_or(4) + seconds("-O").unwrap_or(0);
        // A small window fills a long path for a small share of the time.
        Duration::from_secs(transfer_seconds) + 10 * round_trip
    }
}
