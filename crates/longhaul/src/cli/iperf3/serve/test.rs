//! One test as the server shows it: text as it goes, or JSON.

use super::desk::{Desk, Form};
use super::object::{self, Object};
use super::screen::Place;
use super::words;
use crate::cli::iperf3::rows::{row, side};
use crate::cli::iperf3::system;
use longhaul_probe::iperf3::server::Closed;
use longhaul_probe::iperf3::text::{Layout, Outcome, Processor, Role, Row, Told, opening};
use longhaul_probe::iperf3::wire::{Limit, Transport};
use longhaul_probe::serve::follow::{
    Accepted, FollowTest, Interval, ServerOutput, Started, StreamInterval, Totals,
};
use std::fmt::Write as _;
use std::sync::Arc;

/// What is kept for a client that wants the server's output.
const MOST_OUTPUT_BYTES: usize = 1 << 20;

/// Socket numbers of iperf3's own server: its first stream has 5.
pub fn socket(index: usize, transport: Transport) -> u64 {
    const FIRST: u64 = 5;
    match (index, transport) {
        (0, _) => FIRST,
        (more, Transport::Tcp) => FIRST + 1 + 2 * more as u64,
        (more, Transport::Udp) => FIRST + more as u64,
    }
}

/// One test under way.
pub struct Shown {
    desk: Arc<Desk>,
    place: Option<Place>,
    accepted: Accepted,
    layout: Layout,
    /// Of an interval before this one.
    any: bool,
    /// For the client, where it wants it.
    output: String,
    object: Object,
}

impl Shown {
    pub fn new(desk: Arc<Desk>, accepted: Accepted) -> Shown {
        let test = &accepted.test;
        let layout = Layout {
            role: Role::Server,
            unit: desk.unit,
            udp: test.transport == Transport::Udp,
            both: test.all_streams() > test.streams as usize,
            streams: test.streams as usize,
        };
        let mut name = opening::accepted(accepted.peer);
        if desk.verbose {
            name.insert_str(0, &opening::time(&system::now().0));
        }
        let text = desk.form == Form::Text;
        let banner = desk.listening(desk.screen.number());
        let output = format!("{banner}{name}");
        let place = desk.screen.enter(if text { name } else { String::new() });
        let mut shown = Shown {
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
        let asked = &self.accepted.asked;
        let test = &self.accepted.test;
        let mut text = opening::cookie(&self.accepted.cookie.0);
        if test.transport == Transport::Tcp {
            let mss = asked.mss.filter(|mss| *mss > 0);
            text += &opening::mss(mss.unwrap_or(0) as u32, mss.is_some());
        }
        if let Some(rate) = test.rate_bps {
            text += &opening::target_bitrate(rate);
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

    fn outcome(&self, (index, stream): (usize, &StreamInterval), lasted_s: f64) -> Outcome {
        let side = side(lasted_s, stream);
        Outcome {
            id: self.id(index),
            sends: stream.sends,
            sender: stream.sends.then_some(side),
            receiver: (!stream.sends).then_some(side),
        }
    }

    fn told(&self, totals: &Totals<'_>) -> Option<Told> {
        let results = totals.results;
        let sends = totals.streams.iter().any(|stream| stream.sends);
        let congestion = results.congestion_used.clone();
        self.desk.verbose.then(|| Told {
            processor: Processor {
                local: (results.cpu_util_user, results.cpu_util_system),
                remote: (0.0, 0.0),
            },
            sender_congestion: congestion.clone().filter(|_| sends),
            receiver_congestion: congestion.filter(|_| !sends),
        })
    }

    fn say_totals(&mut self, totals: &Totals<'_>) {
        let lasted = totals.lasted.as_secs_f64();
        let streams = totals.streams.iter().enumerate();
        let outcomes: Vec<Outcome> = streams.map(|it| self.outcome(it, lasted)).collect();
        let resent = totals.streams.iter().any(|stream| stream.resent.is_some());
        let told = self.told(totals);
        let text = self.layout.totals(&outcomes, resent, told.as_ref());
        self.say(&text);
    }

    fn starting(&self) -> String {
        let test = &self.accepted.test;
        let protocol = match test.transport {
            Transport::Tcp => "TCP",
            Transport::Udp => "UDP",
        };
        let limit = match test.limit {
            Limit::Seconds(seconds) => opening::Limit::Seconds(u64::from(seconds)),
            Limit::Bytes(bytes) => opening::Limit::Bytes(bytes),
            Limit::Blocks(blocks) => opening::Limit::Blocks(blocks),
        };
        let omit = u64::from(test.omit_seconds);
        let length = u64::from(test.length_bytes);
        opening::starting(protocol, test.streams, length, (omit, limit), test.tos)
    }
}

impl FollowTest for Shown {
    fn started(&mut self, started: Started) {
        self.object.started(&started);
        let streams = started.streams.iter().enumerate();
        let lines = streams.map(|(index, stream)| {
            let id = self.id(index);
            opening::connected(id, stream.local, stream.peer)
        });
        let mut text: String = lines.collect();
        if self.desk.verbose {
            text += &self.starting();
        }
        self.say(&text);
        self.event("start", &self.object.start.clone());
    }

    fn interval(&mut self, interval: Interval) {
        let streams = interval.streams.iter().enumerate();
        let rows: Vec<Row> = streams
            .map(|(index, stream)| row(self.id(index), &interval, stream))
            .collect();
        let resent = rows.iter().any(|row| row.resent.is_some());
        let header = (!self.any).then_some(resent);
        self.any = true;
        let text = self.layout.interval(&rows, header, interval.omitted);
        self.say(&text);
        let data = self.object.interval(&interval);
        self.event("interval", &data);
    }

    fn finished(&mut self, totals: Totals<'_>) -> ServerOutput {
        self.say_totals(&totals);
        self.object.end(&totals);
        self.event("end", &self.object.end.clone());
        if self.desk.form == Form::Text {
            let mut output = std::mem::take(&mut self.output);
            for paragraph in totals.verdict.iter().flat_map(|verdict| &verdict.words) {
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

    fn closed(mut self: Box<Self>, closed: &Closed) {
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
        let tcp: Vec<u64> = numbers(Transport::Tcp);
        let udp: Vec<u64> = numbers(Transport::Udp);
        assert_eq!(tcp, [5, 8, 10, 12]);
        assert_eq!(udp, [5, 6, 7, 8]);
    }
}
