//! Parts that require longhaul on the target: its view of the path, and hops under load.

use super::{Look, Part, words};
use crate::error::ProbeError;
use crate::path::watch::{self, WatchAsked, WatchError};
use crate::probing::Prober;
use longhaul_model::report::v1::path::{Options, Route};
use longhaul_sys::host::route;

impl Look<'_> {
    /// Measures the reverse route and round trips, and reads the server's view of the TCP options.
    pub(super) fn reverse(&mut self) {
        let wanted = self.plan.reverse || self.plan.options;
        if !self.begins(wanted, Part::Session) {
            return;
        }
        match Prober::connect(self.target) {
            Ok(mut far) => {
                self.tell(Part::Reverse, None, None);
                self.responder = Some(far.parties().1.clone());
                if self.observation.source.is_none() {
                    self.observation.source = far.parties().0.address.clone();
                }
                self.ask(&mut far);
                far.close();
            }
            Err(error) if self.plan.reverse => {
                self.misses(
                    Part::Reverse,
                    words::without_far_end("the way back", &error),
                );
            }
            Err(error) => {
                let what = "what the far end has of options";
                self.misses(Part::Options, words::without_far_end(what, &error));
            }
        }
    }

    /// Queries the server; a failed query does not prevent the others.
    fn ask(&mut self, far: &mut Prober) {
        if self.plan.options {
            match far.options_there() {
                Ok(there) => {
                    let options = self.observation.options.get_or_insert_default();
                    *options = Options {
                        there: there.in_force,
                        mss_there_bytes: there.mss_bytes,
                        offered_there: there.offered,
                        ..options.clone()
                    };
                }
                Err(error) => self.misses(Part::Options, words::of_far_end(&error)),
            }
        }
        if !self.plan.reverse {
            return;
        }
        if self.plan.round_trips.probes > 0 && !self.stopped() {
            match far.echoes_back(&self.plan.round_trips) {
                Ok(echoes) => self.observation.round_trips_reverse = Some(echoes),
                Err(error) => self.misses(Part::Reverse, words::of_far_end(&error)),
            }
        }
        if !self.stopped() {
            self.trace_back(far);
        }
    }

    fn trace_back(&mut self, far: &mut Prober) {
        let Some(asked) = self.plan.trace.as_ref() else {
            return;
        };
        let at_us = self.begin.elapsed().as_micros() as u64;
        // No TCP port is open on this host; the port in the plan belongs to the server.
        match far.trace_back(self.plan.protocol, None, asked) {
            Ok(route) => self.observation.route_reverse = Some(Route { at_us, ..route }),
            Err(error) => self.misses(Part::Reverse, words::of_far_end(&error)),
        }
    }

    /// Watches the hops of the traced route before, during and after a bulk run.
    pub(super) fn load(&mut self) {
        let Some(load) = self.plan.load.as_ref() else {
            return;
        };
        if !self.begins(true, Part::Load) {
            return;
        }
        let (Some(traced), Some(trace)) = (self.observation.route.clone(), &self.plan.trace) else {
            self.misses(
                Part::Load,
                "hops are watched on a traced route, and there is none",
            );
            return;
        };
        let asked = WatchAsked {
            target: self.target,
            load,
            trace: self.trace_asked(trace, traced.protocol),
            route: &traced,
            interface: self.interface(),
        };
        let stop = self.stop;
        let watched = watch::watch(&asked, stop, &mut |progress| {
            self.tell(Part::Load, None, progress);
        });
        match watched {
            Ok(watched) => {
                self.observation.hop_load = Some(watched.watch);
                self.responder
                    .get_or_insert(watched.outcome.responder.clone());
                self.load = Some((watched.plan, watched.outcome));
            }
            Err(error) => self.misses(Part::Load, why(&error)),
        }
    }

    fn interface(&self) -> Option<String> {
        let bound = self.target.bind.device.clone();
        bound.or_else(|| route::towards(self.destination()).ok()?.interface)
    }
}

fn why(error: &WatchError) -> String {
    match error {
        WatchError::Probing(error) => words::of_path(error),
        WatchError::FarEnd(error @ ProbeError::Connect { .. }) => {
            words::without_far_end("load", error)
        }
        WatchError::FarEnd(error) => words::of_far_end(error),
        WatchError::Failed(why) => why.clone(),
        WatchError::Stopped => words::STOPPED.to_owned(),
    }
}
