//! One test as the server shows it: text as it goes, or JSON.

use super::desk::{Desk, Form};
use super::object::{self, Object};
use super::screen::ScreenSlot;
use super::words;
use crate::cli::iperf3::rows::{row, side};
use crate::cli::iperf3::system;
use longhaul_iperf3::iperf3_messages::{TestLimit, TestTransport};
use longhaul_iperf3::iperf3_service::server_observer::{
    AcceptedTest, IntervalReport, RunningTestObserver, ServerOutput, StartedStreams,
    StreamInterval, TestTotals,
};
use longhaul_iperf3::server_protocol::ServerTestEnd;
use longhaul_iperf3::text_output::{
    CpuUtilization, IntervalRow, TextLayout, TextRole, TotalRow, VerboseTotals, text_opening,
};
use std::fmt::Write as _;
use std::sync::Arc;

/// What is kept for a client that wants the server's output.
const MOST_OUTPUT_BYTES: usize = 1 << 20;

/// Socket numbers of iperf3's own server: its first stream has 5.
pub fn socket(index: usize, transport: TestTransport) -> u64 {
    const FIRST: u64 = 5;
    match (index, transport) {
        (0, _) => FIRST,
        (more, TestTransport::Tcp) => FIRST + 1 + 2 * more as u64,
        (more, TestTransport::Udp) => FIRST + more as u64,
    }
}

/// One test under way.
pub struct ShownTest {
    desk: Arc<Desk>,
    place: Option<ScreenSlot>,
    accepted: AcceptedTest,
    layout: TextLayout,
    /// Of an interval before this one.
    any: bool,
    /// For the client, where it wants it.
    output: String,
    object: Object,
}

impl ShownTest {
    pub fn new(desk: Arc<Desk>, accepted: AcceptedTest) -> ShownTest {
        let test = &accepted.test;
        let layout = TextLayout {
            role: TextRole::Server,
            unit: desk.unit,
            udp: test.transport == TestTransport::Udp,
            both: test.all_streams() > test.streams as usize,
            streams: test.streams as usize,
        };
        let mut name = text_opening::format_accepted(accepted.peer);
        if desk.verbose {
            name.insert_str(0, &text_opening::format_time(&system::now().0));
        }
        let text = desk.form == Form::Text;
        let banner = desk.listening(desk.screen.number());
        let output = format!("{banner}{name}");
        let place = desk.screen.enter(if text { name } else { String::new() });
        let mut shown = ShownTest {
            place: Some(place),
            object: Object::new(&accepted, desk.form == Form::Json || desk.full),
            desk,
            accepted,
            layout,
            any: false,
            output,
        };
        shown.introduce();
        shown
    }

    fn introduce(&mut self) {
        if !self.desk.verbose {
            return;
        }
        let asked = &self.accepted.requested;
        let test = &self.accepted.test;
        let mut text = text_opening::format_cookie(&self.accepted.cookie.0);
        if test.transport == TestTransport::Tcp {
            let mss = asked.mss.filter(|mss| *mss > 0);
            text += &text_opening::format_mss(mss.unwrap_or(0) as u32, mss.is_some());
        }
        if let Some(rate) = test.rate_bps {
            text += &text_opening::format_target_bitrate(rate);
        }
        self.say(&text);
    }

    fn say(&mut self, text: &str) {
        if self.desk.form != Form::Text {
            return;
        }
        if self.accepted.test.server_output && self.output.len() < MOST_OUTPUT_BYTES {
            self.output += text;
        }
        if let Some(place) = &mut self.place {
            self.desk.screen.say(place, text);
        }
    }

    fn event(&mut self, name: &str, data: &serde_json::Value) {
        if self.desk.form != Form::Stream {
            return;
        }
        let line = object::event(&self.accepted, name, data);
        if let Some(place) = &mut self.place {
            self.desk.screen.say(place, &line);
        }
    }

    fn id(&self, index: usize) -> i64 {
        socket(index, self.accepted.test.transport) as i64
    }

    fn outcome(&self, (index, stream): (usize, &StreamInterval), lasted_s: f64) -> TotalRow {
        let side = side(lasted_s, stream);
        TotalRow {
            id: self.id(index),
            sends: stream.sends,
            sender: stream.sends.then_some(side),
            receiver: (!stream.sends).then_some(side),
        }
    }

    fn told(&self, totals: &TestTotals<'_>) -> Option<VerboseTotals> {
        let results = totals.results;
        let sends = totals.streams.iter().any(|stream| stream.sends);
        let congestion = results.congestion_used.clone();
        self.desk.verbose.then(|| VerboseTotals {
            processor: CpuUtilization {
                local: (results.cpu_util_user, results.cpu_util_system),
                remote: (0.0, 0.0),
            },
            sender_congestion: congestion.clone().filter(|_| sends),
            receiver_congestion: congestion.filter(|_| !sends),
        })
    }

    fn say_totals(&mut self, totals: &TestTotals<'_>) {
        let lasted = totals.duration.as_secs_f64();
        let streams = totals.streams.iter().enumerate();
        let outcomes: Vec<TotalRow> = streams.map(|it| self.outcome(it, lasted)).collect();
        let resent = totals
            .streams
            .iter()
            .any(|stream| stream.retransmits.is_some());
        let told = self.told(totals);
        let text = self.layout.totals(&outcomes, resent, told.as_ref());
        self.say(&text);
    }

    fn starting(&self) -> String {
        let test = &self.accepted.test;
        let protocol = match test.transport {
            TestTransport::Tcp => "TCP",
            TestTransport::Udp => "UDP",
        };
        let limit = match test.limit {
            TestLimit::Seconds(seconds) => text_opening::PrintedLimit::Seconds(u64::from(seconds)),
            TestLimit::Bytes(bytes) => text_opening::PrintedLimit::Bytes(bytes),
            TestLimit::Blocks(blocks) => text_opening::PrintedLimit::Blocks(blocks),
        };
        let omit = u64::from(test.omit_seconds);
        let length = u64::from(test.length_bytes);
        text_opening::format_starting(protocol, test.streams, length, (omit, limit), test.tos)
    }
}

impl RunningTestObserver for ShownTest {
    fn started(&mut self, started: StartedStreams) {
        self.object.started(&started);
        let streams = started.streams.iter().enumerate();
        let lines = streams.map(|(index, stream)| {
            let id = self.id(index);
            text_opening::format_connected(id, stream.local, stream.peer)
        });
        let mut text: String = lines.collect();
        if self.desk.verbose {
            text += &self.starting();
        }
        self.say(&text);
        self.event("start", &self.object.start.clone());
    }

    fn interval(&mut self, interval: IntervalReport) {
        let streams = interval.streams.iter().enumerate();
        let rows: Vec<IntervalRow> = streams
            .map(|(index, stream)| row(self.id(index), &interval, stream))
            .collect();
        let resent = rows.iter().any(|row| row.retransmits.is_some());
        let header = (!self.any).then_some(resent);
        self.any = true;
        let text = self.layout.interval(&rows, header, interval.omitted);
        self.say(&text);
        let data = self.object.interval(&interval);
        self.event("interval", &data);
    }

    fn finished(&mut self, totals: TestTotals<'_>) -> ServerOutput {
        self.say_totals(&totals);
        self.object.end(&totals);
        self.event("end", &self.object.end.clone());
        if self.desk.form == Form::Text {
            let mut output = std::mem::take(&mut self.output);
            for paragraph in totals
                .verdict
                .iter()
                .flat_map(|verdict| &verdict.paragraphs)
            {
                let _ = writeln!(output, "\n{paragraph}");
            }
            return ServerOutput::Text(output);
        }
        let mut value = self.object.whole();
        if let Some(verdict) = totals.verdict {
            value["longhaul"] = verdict.data;
        }
        ServerOutput::Json(value)
    }

    fn closed(mut self: Box<Self>, closed: &ServerTestEnd) {
        let error = words::error(closed, self.desk.interrupted());
        if let Some(error) = &error {
            self.object.error(error);
            self.event("error", &serde_json::Value::from(error.as_str()));
        }
        if self.desk.form == Form::Json || self.desk.full {
            let text = object::pretty(&self.object.whole());
            if let Some(place) = &mut self.place {
                self.desk.screen.say(place, &text);
            }
        }
        self.desk.over(self.place.take(), closed, error.as_deref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_numbered_as_iperf3_mostly_has_them() {
        let numbers = |transport| (0..4).map(|index| socket(index, transport)).collect();
        let tcp: Vec<u64> = numbers(TestTransport::Tcp);
        let udp: Vec<u64> = numbers(TestTransport::Udp);
        assert_eq!(tcp, [5, 8, 10, 12]);
        assert_eq!(udp, [5, 6, 7, 8]);
    }
}
