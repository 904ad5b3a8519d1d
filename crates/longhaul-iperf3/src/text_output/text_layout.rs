//! The lines of the intervals and the totals of a test.

use super::COMPLETE;
use super::text_columns::{LineId, LineTail, SEPARATOR, format_line};
use super::text_units::RateFormat;
use std::fmt::Write as _;

/// The end that prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextRole {
    Client,
    Server,
}

/// The properties of a test that determine its lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextLayout {
    pub role: TextRole,
    pub unit: RateFormat,
    pub udp: bool,
    /// Both ends send.
    pub both: bool,
    /// The number of streams in one direction.
    pub streams: usize,
}

/// The counts of one stream in one interval at this end.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct IntervalRow {
    pub id: i64,
    /// Set if this end sends on the stream.
    pub sends: bool,
    /// Seconds since counting began.
    pub from_s: f64,
    pub to_s: f64,
    pub bytes: u64,
    /// Retransmits, if this end's kernel reports them.
    pub retransmits: Option<u64>,
    /// Congestion window in bytes at the end of the interval.
    pub cwnd: Option<u64>,
    /// Datagrams sent by this end, or sent to it.
    pub datagrams: u64,
    pub lost: i64,
    pub jitter_ms: f64,
}

/// The counts of one end of a stream over the whole test.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StreamSide {
    pub duration_s: f64,
    pub bytes: u64,
    pub retransmits: Option<u64>,
    pub datagrams: u64,
    pub lost: i64,
    pub jitter_ms: f64,
}

/// The totals of a stream; `None` for an end that does not report them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TotalRow {
    pub id: i64,
    /// Set if this end sends on the stream.
    pub sends: bool,
    pub sender: Option<StreamSide>,
    pub receiver: Option<StreamSide>,
}

/// CPU time in percent of one core: user, system.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CpuUtilization {
    pub local: (f64, f64),
    pub remote: (f64, f64),
}

/// The additional data of `-V` in the totals.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct VerboseTotals {
    pub processor: CpuUtilization,
    /// The congestion control of each end, if known.
    pub sender_congestion: Option<String>,
    pub receiver_congestion: Option<String>,
}

impl TextLayout {
    /// Returns the header of the intervals. `retransmits`: this end's kernel or the peer reports
    /// retransmits.
    pub fn interval_header(&self, sends: bool, resent: bool) -> String {
        let columns = match (self.udp, self.both || !sends, resent) {
            (true, false, _) => "         Total Datagrams",
            (true, true, _) => "         Jitter    Lost/Total Datagrams",
            (false, _, true) => "         Retr  Cwnd",
            (false, _, false) => "",
        };
        self.header(columns)
    }

    /// Returns the header of the totals.
    pub fn total_header(&self, resent: bool) -> String {
        self.header(match (self.udp, resent) {
            (true, _) => "         Jitter    Lost/Total Datagrams",
            (false, true) => "         Retr",
            (false, false) => "",
        })
    }

    fn header(&self, columns: &str) -> String {
        let role = if self.both { "[Role]" } else { "" };
        format!("[ ID]{role} Interval           Transfer     Bitrate{columns}\n")
    }

    /// Formats one interval. `rows` are all streams in the order of their opening. `header` is set
    /// for the first interval and says whether retransmits are reported.
    pub fn interval(&self, rows: &[IntervalRow], header: Option<bool>, omitted: bool) -> String {
        let mut text = match header {
            Some(resent) => {
                let sends = rows.first().is_some_and(|row| row.sends);
                self.interval_header(sends, resent)
            }
            None if self.streams > 1 => SEPARATOR.to_owned(),
            None => String::new(),
        };
        let last = if omitted { "(omitted)" } else { "" };
        for way in split_directions(rows, |row| row.sends) {
            for row in &way {
                text += &self.interval_line(LineId::Stream(row.id), row, last);
            }
            if let (true, Some(sum)) = (self.streams > 1, sum_interval_rows(&way)) {
                text += &self.interval_line(LineId::Sum, &sum, last);
            }
        }
        text
    }

    fn interval_line(&self, id: LineId, row: &IntervalRow, last: &str) -> String {
        let tail = match (self.udp, row.sends, row.retransmits) {
            (true, true, _) => LineTail::Sent {
                datagrams: row.datagrams,
                wide: self.both,
            },
            (true, false, _) => LineTail::Received {
                jitter_ms: row.jitter_ms,
                lost: row.lost,
                datagrams: row.datagrams,
            },
            (false, true, Some(segments)) => LineTail::Retransmits {
                segments,
                cwnd: row.cwnd,
            },
            (false, ..) => LineTail::Bytes,
        };
        let span = (row.from_s, row.to_s);
        let of = (row.bytes, row.to_s - row.from_s);
        format_line(
            self.unit,
            (id, self.direction_tag(row.sends)),
            span,
            of,
            (tail, last),
        )
    }

    fn direction_tag(&self, sends: bool) -> &'static str {
        match (self.both, self.role, sends) {
            (false, ..) => "",
            (true, TextRole::Client, true) => "[TX-C]",
            (true, TextRole::Client, false) => "[RX-C]",
            (true, TextRole::Server, true) => "[TX-S]",
            (true, TextRole::Server, false) => "[RX-S]",
        }
    }

    /// Formats the totals, beginning with the separator. `told`: the additional data of `-V`.
    pub fn totals(
        &self,
        outcomes: &[TotalRow],
        resent: bool,
        told: Option<&VerboseTotals>,
    ) -> String {
        let mut text = SEPARATOR.to_owned();
        if told.is_some() {
            text += COMPLETE;
        }
        text += &self.total_header(resent);
        for way in split_directions(outcomes, |outcome| outcome.sends) {
            for outcome in &way {
                text += &self.total_lines(LineId::Stream(outcome.id), outcome, told.is_some());
            }
            if let (true, Some(sum)) = (self.streams > 1, sum_total_rows(&way)) {
                text += &self.total_lines(LineId::Sum, &sum, told.is_some());
            }
            if let (Some(told), Some(first)) = (told, way.first()) {
                text += &self.verbose_lines(told, first);
            }
        }
        text
    }

    fn total_lines(&self, id: LineId, outcome: &TotalRow, verbose: bool) -> String {
        let mut text = String::new();
        let sides = [("sender", &outcome.sender), ("receiver", &outcome.receiver)];
        for (name, side) in sides {
            match side {
                Some(side) => text += &self.side_line(id, outcome.sends, (name, side)),
                None if verbose => {
                    let _ = writeln!(text, "{} ({name} statistics not available)", id.text());
                }
                None => {}
            }
        }
        text
    }

    fn side_line(&self, id: LineId, sends: bool, (name, side): (&str, &StreamSide)) -> String {
        let tail = match (self.udp, side.retransmits) {
            (true, _) => LineTail::Received {
                jitter_ms: side.jitter_ms,
                lost: side.lost,
                datagrams: side.datagrams,
            },
            (false, Some(segments)) => LineTail::Retransmits {
                segments,
                cwnd: None,
            },
            (false, None) => LineTail::Bytes,
        };
        let span = (0.0, side.duration_s);
        let of = (side.bytes, side.duration_s);
        format_line(
            self.unit,
            (id, self.direction_tag(sends)),
            span,
            of,
            (tail, name),
        )
    }

    /// Formats the lines after the totals of one direction.
    fn verbose_lines(&self, told: &VerboseTotals, way: &TotalRow) -> String {
        let mut text = String::new();
        if way.sends {
            text += &format_cpu_utilization(&told.processor, ("sender", "receiver"));
            if self.both {
                text += &format_cpu_utilization(&told.processor, ("receiver", "sender"));
            }
        }
        if self.udp {
            return text;
        }
        let known = [
            ("snd", &told.sender_congestion, way.sender),
            ("rcv", &told.receiver_congestion, way.receiver),
        ];
        for (name, control, side) in known {
            if let (Some(control), Some(_)) = (control, side) {
                let _ = writeln!(text, "{name}_tcp_congestion {control}");
            }
        }
        text
    }
}

fn format_cpu_utilization(of: &CpuUtilization, (local, remote): (&str, &str)) -> String {
    let share = |(user, system): (f64, f64)| {
        let total = user + system;
        format!("{total:.1}% ({user:.1}%u/{system:.1}%s)")
    };
    format!(
        "CPU Utilization: local/{local} {}, remote/{remote} {}\n",
        share(of.local),
        share(of.remote)
    )
}

/// Splits the streams by direction, that of the first stream first.
fn split_directions<T: Copy>(all: &[T], sends: impl Fn(&T) -> bool) -> Vec<Vec<T>> {
    let first = all.first().is_some_and(&sends);
    let (one, other): (Vec<T>, Vec<T>) = all.iter().copied().partition(|it| sends(it) == first);
    [one, other]
        .into_iter()
        .filter(|way| !way.is_empty())
        .collect()
}

fn sum_interval_rows(way: &[IntervalRow]) -> Option<IntervalRow> {
    let first = way.first()?;
    Some(IntervalRow {
        bytes: way.iter().map(|row| row.bytes).sum(),
        retransmits: way.iter().map(|row| row.retransmits).sum(),
        cwnd: None,
        datagrams: way.iter().map(|row| row.datagrams).sum(),
        lost: way.iter().map(|row| row.lost).sum(),
        jitter_ms: way.iter().map(|row| row.jitter_ms).sum::<f64>() / way.len() as f64,
        ..*first
    })
}

fn sum_total_rows(way: &[TotalRow]) -> Option<TotalRow> {
    let sum = |of: fn(&TotalRow) -> Option<StreamSide>| {
        let sides: Option<Vec<StreamSide>> = way.iter().map(of).collect();
        let sides = sides?;
        Some(StreamSide {
            duration_s: sides.iter().map(|side| side.duration_s).fold(0.0, f64::max),
            bytes: sides.iter().map(|side| side.bytes).sum(),
            retransmits: sides.iter().map(|side| side.retransmits).sum(),
            datagrams: sides.iter().map(|side| side.datagrams).sum(),
            lost: sides.iter().map(|side| side.lost).sum(),
            jitter_ms: sides.iter().map(|side| side.jitter_ms).sum::<f64>() / sides.len() as f64,
        })
    };
    Some(TotalRow {
        sender: sum(|outcome| outcome.sender),
        receiver: sum(|outcome| outcome.receiver),
        ..*way.first()?
    })
}

#[cfg(test)]
mod tests;
