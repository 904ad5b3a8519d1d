//! A test as text, while it goes.

use super::client_request::ClientRequest;
use super::{Show, document};
use crate::cli::args::Iperf3Args;
use crate::cli::iperf3::rows::{row, side};
use crate::cli::iperf3::system;
use crate::cli::iperf3::writer::Writer;
use crate::render::iperf3_report_json::live_json;
use crate::render::text_page::{WIDTH, wrap_text};
use longhaul_iperf3::client_run::{ClientTestObserver, ObservedResults, TestControlInfo};
use longhaul_iperf3::iperf3_messages::TestResults;
use longhaul_iperf3::iperf3_service::server_observer::{
    IntervalReport, StartedStreams, StreamInterval,
};
use longhaul_iperf3::text_output::{
    self, CpuUtilization, IntervalRow, StreamSide, TextLayout, TextRole, TotalRow, VerboseTotals,
    text_opening,
};
use longhaul_model::report::v1::plan::RunDirection;
use std::fmt::Write as _;
use std::io;
use std::time::Duration;

/// Prints a test as iperf3 does.
pub struct Screen<'a> {
    args: &'a Iperf3Args,
    asked: &'a ClientRequest,
    writer: Writer,
    layout: TextLayout,
    datagram_bytes: u64,
    /// The table has its header.
    begun: bool,
    /// The last interval waits for the results, as there: only then is known what was sent again.
    last: Option<IntervalReport>,
    /// The first write that failed.
    trouble: Option<io::Error>,
}

impl<'a> Screen<'a> {
    pub fn new(args: &'a Iperf3Args, asked: &'a ClientRequest, writer: Writer) -> Screen<'a> {
        Screen {
            args,
            asked,
            writer,
            layout: TextLayout {
                role: TextRole::Client,
                unit: args.format,
                udp: asked.udp,
                both: asked.plan.direction == RunDirection::Both,
                streams: asked.plan.streams as usize,
            },
            datagram_bytes: 0,
            begun: false,
            last: None,
            trouble: None,
        }
    }

    fn say(&mut self, text: &str) {
        if self.trouble.is_none() {
            self.trouble = self.writer.lines(text).err();
        }
    }

    /// What `-V` has before the first line.
    fn introduce(&mut self, control: &TestControlInfo) {
        let mut text = format!("{}\n{}\n", system::program(), system::system_info());
        if let Some(mss) = control.mss_bytes {
            text += &text_opening::format_control_mss(mss);
        }
        if self.asked.udp && self.asked.plan.write_bytes.is_none() {
            let _ = writeln!(text, "Setting UDP block size to {}", control.datagram_bytes);
        }
        text += &text_opening::format_time(&system::now().0);
        self.say(&text);
    }

    fn describe(&mut self, control: &TestControlInfo) {
        let mut text = text_opening::format_cookie(&control.cookie.0);
        if !self.asked.udp {
            let asked = self.asked.plan.mss_bytes;
            let mss = asked.or(control.mss_bytes).unwrap_or(0);
            text += &text_opening::format_mss(mss, asked.is_some());
        }
        if self.asked.rate_bps > 0 {
            text += &text_opening::format_target_bitrate(self.asked.rate_bps);
        }
        self.say(&text);
    }

    fn show(&mut self, interval: &IntervalReport, resent: bool) {
        let rows: Vec<IntervalRow> = (interval.streams.iter().enumerate())
            .map(|(index, stream)| row(id(index), interval, stream))
            .collect();
        let header = (!self.begun).then_some(resent);
        self.begun = true;
        let text = self.layout.interval(&rows, header, interval.omitted);
        self.say(&text);
    }

    fn totals(&mut self, followed: &ObservedResults) {
        let outcomes = outcomes(followed, self.layout.streams, &self.layout);
        let resent = outcomes.iter().any(|outcome| {
            outcome
                .sender
                .is_some_and(|side| side.retransmits.is_some())
        });
        if let Some(last) = self.last.take() {
            self.show(&last, resent);
        }
        let told = self.args.verbose.then(|| told(followed, &self.layout));
        let text = self.layout.totals(&outcomes, resent, told.as_ref());
        self.say(&text);
    }

    fn server_output(&mut self, far: &TestResults) {
        if let Some(output) = &far.server_output_text {
            self.show_block(&text_output::format_server_output(&tamed(output)));
        }
        if let Some(output) = &far.server_output_json {
            self.show_block(&text_output::format_server_json(&format!("{output:#}")));
        }
    }

    fn show_block(&mut self, text: &str) {
        if self.trouble.is_none() {
            self.trouble = self.writer.block(text).err();
        }
    }
}

/// Letters that steer a terminal are shown, not obeyed.
fn tamed(text: &str) -> String {
    let plain = |c: char| !c.is_control() || c == '\n' || c == '\t';
    text.chars()
        .map(|c| if plain(c) { c } else { '?' })
        .collect()
}

fn id(index: usize) -> i64 {
    live_json::socket_number(index) as i64
}

fn whole((lasted, stream): &(Duration, StreamInterval)) -> StreamSide {
    side(lasted.as_secs_f64(), stream)
}

/// Both ends of each stream; without the far one when the test was interrupted.
fn outcomes(followed: &ObservedResults, streams: usize, layout: &TextLayout) -> Vec<TotalRow> {
    let counted = followed.counted.clone().unwrap_or_default();
    let all = document::both_ends(
        followed,
        streams * if layout.both { 2 } else { 1 },
        layout.udp,
    );
    let of = |(index, own): (usize, &StreamInterval)| {
        let own_side = Some(side(counted.duration.as_secs_f64(), own));
        let both = all.as_ref().and_then(|all| all.get(index));
        let (sender, receiver) = match (both, own.sends) {
            (Some(both), _) => (Some(whole(&both.sent)), Some(whole(&both.received))),
            (None, true) => (own_side, None),
            (None, false) => (None, own_side),
        };
        TotalRow {
            id: id(index),
            sends: own.sends,
            sender,
            receiver,
        }
    };
    counted.streams.iter().enumerate().map(of).collect()
}

fn told(followed: &ObservedResults, layout: &TextLayout) -> VerboseTotals {
    let share = |results: Option<&TestResults>| {
        results.map_or((0.0, 0.0), |it| (it.cpu_util_user, it.cpu_util_system))
    };
    let control = |results: Option<&TestResults>| results?.congestion_used.clone();
    let (own, far) = (followed.own.as_ref(), followed.peer.as_ref());
    let counted = followed.counted.as_ref();
    let sends = counted
        .and_then(|it| it.streams.first())
        .is_some_and(|it| it.sends);
    let (sender, receiver) = if sends || layout.both {
        (own, far)
    } else {
        (far, own)
    };
    VerboseTotals {
        processor: CpuUtilization {
            local: share(own),
            remote: share(far),
        },
        sender_congestion: control(sender),
        receiver_congestion: control(receiver),
    }
}

impl ClientTestObserver for Screen<'_> {
    fn connected(&mut self, control: &TestControlInfo) {
        self.datagram_bytes = control.datagram_bytes;
        if self.args.verbose {
            self.introduce(control);
        }
        let host = &self.asked.target.host;
        let mut text = text_opening::format_connecting(host, self.asked.target.port);
        if self.asked.plan.direction == RunDirection::Reverse {
            text += &text_opening::format_reverse(host);
        }
        self.say(&text);
        if self.args.verbose {
            self.describe(control);
        }
    }

    fn started(&mut self, started: &StartedStreams) {
        let mut text = String::new();
        for (index, stream) in started.streams.iter().enumerate() {
            text += &text_opening::format_connected(id(index), stream.local, stream.peer);
        }
        if self.args.verbose {
            let protocol = if self.asked.udp { "UDP" } else { "TCP" };
            let block = self.asked.block_bytes(self.datagram_bytes);
            let until = (u64::from(self.asked.omit_s), self.asked.limit);
            let streams = self.asked.plan.streams;
            text += &text_opening::format_starting(protocol, streams, block, until, self.asked.tos);
        }
        self.say(&text);
    }

    fn interval(&mut self, interval: IntervalReport, last: bool) {
        if last {
            self.last = Some(interval);
            return;
        }
        let resent = interval
            .streams
            .iter()
            .any(|stream| stream.retransmits.is_some());
        self.show(&interval, resent);
    }
}

impl Show for Screen<'_> {
    fn finish(&mut self, followed: &ObservedResults) -> io::Result<()> {
        self.totals(followed);
        if let Some(far) = &followed.peer {
            // A server of 3.12 that was asked once tells all clients after that.
            if self.args.client.get_server_output {
                self.server_output(far);
            }
            self.say(text_output::DONE);
            if self.args.verbose && !followed.verdict.is_empty() {
                let verdict = format!("longhaul: {}", followed.verdict.join("\n"));
                let lines = verdict.lines().flat_map(|line| wrap_text(line, WIDTH));
                let lines: String = lines.map(|line| line + "\n").collect();
                self.say(&format!("\n{lines}"));
            }
        }
        self.trouble.take().map_or(Ok(()), Err)
    }

    fn fail(&mut self, text: &str) -> io::Result<bool> {
        if self.writer.is_file {
            self.writer.lines(&format!("iperf3: {text}\n"))?;
        }
        Ok(self.writer.is_file)
    }
}
