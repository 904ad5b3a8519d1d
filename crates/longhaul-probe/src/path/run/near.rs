//! Parts that this host measures alone: round trips, route, path MTU, TCP options.

use super::{Look, Part, words};
use crate::path::echo::{self, EchoAsked, Ran};
use crate::path::error::PathError;
use crate::path::mtu::{self, End, MtuAsked};
use crate::path::options;
use crate::path::trace::{TraceAsked, trace};
use longhaul_model::report::v1::path::{Echo, Protocol, RoundTrips, Route, Trace};
use std::time::Duration;

/// Unanswered probes after which another protocol is tried.
const GIVE_UP_AFTER: u32 = 4;
/// Time limits of a trace, without and with alternatives.
const TRACE_MOST: Duration = Duration::from_secs(60);
const ALTERNATIVES_MOST: Duration = Duration::from_secs(180);

impl Look<'_> {
    /// Measures with the requested protocol, then with others until the destination answers.
    pub(super) fn round_trips(&mut self) {
        if !self.begins(self.plan.round_trips.probes > 0, Part::RoundTrips) {
            return;
        }
        let wanted = self.plan.round_trips.protocol;
        let all = [Protocol::Icmp, Protocol::Tcp, Protocol::Udp];
        let others = all.into_iter().filter(|protocol| *protocol != wanted);
        let mut troubles = Vec::new();
        for protocol in std::iter::once(wanted).chain(others) {
            match self.series(protocol) {
                Ok(ran) if ran.answered > 0 => {
                    self.answered = Some(protocol);
                    if !troubles.is_empty() {
                        let why = words::in_place(&troubles, protocol);
                        self.misses(Part::RoundTrips, why);
                    }
                    if protocol == Protocol::Udp && ran.answered < ran.echoes.sent {
                        self.misses(Part::RoundTrips, words::UDP_LIMIT);
                    }
                    self.observation.round_trips = Some(ran.echoes);
                    return;
                }
                Ok(ran) => {
                    troubles.push(words::silence(protocol, ran.denied));
                    // The requested series stays in the report, unanswered.
                    self.observation.round_trips.get_or_insert(ran.echoes);
                }
                Err(error) => troubles.push(words::of_path(&error)),
            }
            if self.stopped() {
                break;
            }
        }
        self.misses(Part::RoundTrips, troubles.join("; "));
    }

    fn series(&mut self, protocol: Protocol) -> Result<Ran, PathError> {
        let asked = EchoAsked {
            destination: self.destination(),
            source: self.target.bind.address,
            device: self.target.bind.device.clone(),
            port: self.port(protocol),
            round_trips: RoundTrips {
                protocol,
                ..self.plan.round_trips.clone()
            },
        };
        self.echoes.clear();
        let stop = self.stop;
        let give_up = Some(GIVE_UP_AFTER.min(self.plan.round_trips.probes));
        echo::series_of(&asked, give_up, stop, &mut |echo: &Echo| {
            self.echoes.push(*echo);
            self.tell(Part::RoundTrips, None, None);
        })
    }

    /// Returns the destination port: for TCP the one where longhaul would listen.
    pub(super) fn port(&self, protocol: Protocol) -> Option<u16> {
        match protocol {
            Protocol::Icmp => None,
            Protocol::Udp => self.plan.port,
            Protocol::Tcp => self.plan.port.or(Some(self.target.port)),
        }
    }

    pub(super) fn trace_asked(&self, trace: &Trace, protocol: Protocol) -> TraceAsked {
        let most_time = if trace.confidence_ratio.is_some() {
            ALTERNATIVES_MOST
        } else {
            TRACE_MOST
        };
        TraceAsked {
            destination: self.destination(),
            source: self.target.bind.address,
            device: self.target.bind.device.clone(),
            protocol,
            port: self.port(protocol),
            trace: trace.clone(),
            most_time,
        }
    }

    /// Traces with the requested protocol, or with UDP if privileges are missing.
    pub(super) fn trace(&mut self) {
        let Some(asked) = self.plan.trace.as_ref() else {
            return;
        };
        if !self.begins(true, Part::Route) {
            return;
        }
        let begin = self.begin.elapsed();
        let traced = match self.trace_by(asked, self.plan.protocol) {
            Err(error @ PathError::Privilege { .. }) if self.plan.protocol != Protocol::Udp => {
                let troubles = [words::of_path(&error)];
                self.misses(Part::Route, words::in_place(&troubles, Protocol::Udp));
                self.trace_by(asked, Protocol::Udp)
            }
            traced => traced,
        };
        match traced {
            Ok(route) => {
                self.observation.source = Some(route.from.clone());
                self.observation.route = Some(Route {
                    at_us: begin.as_micros() as u64,
                    ..route
                });
            }
            Err(error) => self.misses(Part::Route, words::of_path(&error)),
        }
    }

    fn trace_by(&mut self, asked: &Trace, protocol: Protocol) -> Result<Route, PathError> {
        let asked = self.trace_asked(asked, protocol);
        let stop = self.stop;
        trace(&asked, stop, &mut |route| {
            self.tell(Part::Route, Some(route), None);
        })
    }

    /// Searches with ICMP echoes if they are answered, otherwise with UDP.
    pub(super) fn mtu(&mut self) {
        if !self.begins(self.plan.mtu, Part::Mtu) {
            return;
        }
        let protocol = match self.answered {
            Some(Protocol::Udp | Protocol::Tcp) => Protocol::Udp,
            Some(Protocol::Icmp) | None => Protocol::Icmp,
        };
        let asked = MtuAsked {
            destination: self.destination(),
            source: self.target.bind.address,
            device: self.target.bind.device.clone(),
            protocol,
            port: self.port(protocol),
        };
        match mtu::search(&asked, self.stop) {
            Ok(ran) => {
                let why = match (ran.end, ran.bounds) {
                    (End::Found, _) => None,
                    (End::NoAnswer, _) => Some(format!(
                        "no packet of any size is answered; {}",
                        words::silence(protocol, None)
                    )),
                    (End::Exhausted, (low, high)) => Some(unfinished(low, high)),
                };
                if let Some(why) = why {
                    self.misses(Part::Mtu, why);
                }
                self.observation.mtu = Some(ran.search);
            }
            Err(error) => self.misses(Part::Mtu, words::of_path(&error)),
        }
    }

    /// Reads the options of a connection to longhaul's port; any listening program will do.
    pub(super) fn options(&mut self) {
        if !self.begins(self.plan.options, Part::Options) {
            return;
        }
        let bind = &self.target.bind;
        let timeout = self.target.connect_timeout;
        match options::here(self.address, bind.address, bind.device.as_deref(), timeout) {
            Ok(options) => self.observation.options = Some(options),
            Err(error) => {
                let why = format!(
                    "options are seen on a TCP connection, and {} takes none: {error}; give a \
                     port where something listens",
                    self.address
                );
                self.misses(Part::Options, why);
            }
        }
    }
}

fn unfinished(low: Option<u32>, high: Option<u32>) -> String {
    match (low, high) {
        (Some(low), Some(high)) => format!(
            "the search ended before its end: packets of {low} bytes pass, of {high} they do not"
        ),
        (Some(low), None) => format!("the search ended before its end: {low} bytes pass"),
        (None, _) => "the search ended before anything was answered".to_owned(),
    }
}
