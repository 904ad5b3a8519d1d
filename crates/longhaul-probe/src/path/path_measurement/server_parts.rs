//! Parts that require longhaul on the target: its view of the path, and hops under load.

use super::{PathPart, PathRun, missing_reasons};
use crate::path::hop_watch::{self, HopWatchRequest};
use crate::probe_error::ProbeError;
use crate::probing::ProbeClient;
use longhaul_model::report::v1::path::{ObservedRoute, PathTcpOptions};
use longhaul_sys::host::kernel_route;

impl PathRun<'_> {
    /// Measures the reverse route and round trips, and reads the server's view of the TCP options.
    pub(super) fn measure_reverse(&mut self) {
        let wanted = self.plan.reverse || self.plan.options;
        if !self.start_part(wanted, PathPart::Session) {
            return;
        }
        match ProbeClient::connect(self.target) {
            Ok(mut far) => {
                self.report_progress(PathPart::Reverse, None, None);
                self.responder = Some(far.parties().1.clone());
                if self.observation.source.is_none() {
                    self.observation.source = far.parties().0.address.clone();
                }
                self.query_server(&mut far);
                far.close();
            }
            Err(error) => {
                let (part, what) = if self.plan.reverse {
                    (PathPart::Reverse, "the return path")
                } else {
                    (PathPart::Options, "reading the TCP options of the server")
                };
                self.record_missing(part, missing_reasons::describe_missing_server(what, &error));
            }
        }
    }

    /// Queries the server; a failed query does not prevent the others.
    fn query_server(&mut self, far: &mut ProbeClient) {
        if self.plan.options {
            match far.read_server_tcp_options() {
                Ok(there) => {
                    let options = self.observation.options.get_or_insert_default();
                    *options = PathTcpOptions {
                        there: there.in_force,
                        mss_there_bytes: there.mss_bytes,
                        offered_there: there.offered,
                        ..options.clone()
                    };
                }
                Err(error) => self.record_server_error(PathPart::Options, &error),
            }
        }
        if !self.plan.reverse {
            return;
        }
        if self.plan.round_trips.probes > 0 && !self.is_stopped() {
            match far.measure_reverse_round_trips(&self.plan.round_trips) {
                Ok(echoes) => self.observation.round_trips_reverse = Some(echoes),
                Err(error) => self.record_server_error(PathPart::Reverse, &error),
            }
        }
        if !self.is_stopped() {
            self.trace_reverse(far);
        }
    }

    fn record_server_error(&mut self, part: PathPart, error: &ProbeError) {
        self.record_missing(part, missing_reasons::describe_server_error(error));
    }

    fn trace_reverse(&mut self, far: &mut ProbeClient) {
        let Some(asked) = self.plan.trace.as_ref() else {
            return;
        };
        let at_us = self.begin.elapsed().as_micros() as u64;
        // No TCP port is open on this host; the port in the plan belongs to the server.
        match far.trace_reverse(self.plan.protocol, None, asked) {
            Ok(route) => self.observation.route_reverse = Some(ObservedRoute { at_us, ..route }),
            Err(error) => self.record_server_error(PathPart::Reverse, &error),
        }
    }

    /// Watches the hops of the traced route before, during and after a bulk run.
    pub(super) fn measure_hops_under_load(&mut self) {
        let Some(load) = self.plan.load.as_ref() else {
            return;
        };
        if !self.start_part(true, PathPart::Load) {
            return;
        }
        let (Some(traced), Some(trace)) = (self.observation.route.clone(), &self.plan.trace) else {
            self.record_missing(
                PathPart::Load,
                "watching hops requires a traced route, and there is none",
            );
            return;
        };
        let asked = HopWatchRequest {
            target: self.target,
            load,
            trace: self.trace_request(trace, traced.protocol),
            route: &traced,
            interface: self.interface(),
        };
        let stop = self.stop;
        let watched = hop_watch::watch_hops(&asked, stop, &mut |progress| {
            self.report_progress(PathPart::Load, None, progress);
        });
        match watched {
            Ok(watched) => {
                self.observation.hop_load = Some(watched.watch);
                self.responder.get_or_insert(watched.outcome.responder.clone());
                self.load = Some((watched.plan, watched.outcome));
            }
            Err(why) => self.record_missing(PathPart::Load, why),
        }
    }

    fn interface(&self) -> Option<String> {
        let bound = self.target.bind.device.clone();
        bound.or_else(|| kernel_route::query_route(self.destination()).ok()?.interface)
    }
}
