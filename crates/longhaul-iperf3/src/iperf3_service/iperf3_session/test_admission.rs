//! Decides whether a test is admitted.

use super::super::iperf3_streams::AwaitedStreams;
use super::{AdmittedTest, Iperf3Session};
use crate::iperf3_messages::{Iperf3Error, RequestedTest, TestParameters};
use crate::server_protocol::{ServerInput, TestFault};
use longhaul_model::report::v1::plan::ThroughputPlan;
use longhaul_model::sanitize::sanitize_line;
use longhaul_probe::measurement_server::{ServeEvent, describe_plan};
use longhaul_probe::plan_limits::{LimitError, check_anonymous};

const MAX_VERSION: usize = 16;

impl Iperf3Session<'_> {
    /// Admits or rejects the test, or waits for its turn.
    pub(super) fn admit(&mut self, asked: Box<(TestParameters, RequestedTest)>) {
        let mut turn = None;
        if asked.1.is_udp() {
            turn = self.tests.reserve_udp_turn(self.peer.ip(), asked.1.all_streams());
            if turn.is_none() {
                self.waiting = Some(asked);
                return;
            }
        }
        let (asked, test) = *asked;
        if let Err((trouble, why)) = self.check_permission(&asked, &test.plan) {
            return self.feed(ServerInput::Failed(trouble, why));
        }
        let slot = match self.service.take_slot(self.limits.map(|most| most.concurrent)) {
            Ok(slot) => slot,
            Err(why) => return self.feed(ServerInput::Busy(why)),
        };
        let Some(entry) = self.tests.register(self.cookie, test.all_streams()) else {
            return self.feed(ServerInput::Busy("its cookie is already in use".to_owned()));
        };
        self.announce(&asked, &test.plan);
        let device = self.service.options.device.as_deref();
        self.granted = Some(AdmittedTest {
            awaited: Some(AwaitedStreams {
                entry,
                turn,
                local: self.local,
                device,
                arrived: Vec::new(),
            }),
            test,
            _slot: slot,
        });
        self.pending = None;
        self.feed(ServerInput::Admitted);
    }

    fn announce(&self, asked: &TestParameters, plan: &ThroughputPlan) {
        let version = asked.client_version.as_deref().unwrap_or("before 3.1");
        self.service.log(ServeEvent::SessionOpened {
            peer: self.peer,
            host: format!("iperf3 {}", sanitize_line(version, MAX_VERSION)),
            anonymous: self.users.is_none(),
            what: describe_plan(plan),
        });
    }

    /// Checks whether this client may run this test.
    fn check_permission(
        &self,
        asked: &TestParameters,
        plan: &ThroughputPlan,
    ) -> Result<(), TestFault> {
        if plan.streams > self.service.options.max_streams {
            let most = self.service.options.max_streams;
            return Err((Iperf3Error::Streams, format!("at most {most} streams")));
        }
        if let Some(users) = self.users {
            users.check(asked.authtoken.as_deref())
        } else if let Some(strangers) = self.limits {
            let refused = |error| (map_anonymous_limit(&error), error.to_string());
            check_anonymous(plan, &strangers).map_err(refused)
        } else {
            let why = "anonymous clients are refused, and iperf3 does not support tokens";
            Err((Iperf3Error::Authentication, why.to_owned()))
        }
    }
}

/// Maps a violated limit for anonymous clients to an iperf3 error. iperf3 has none for bytes.
fn map_anonymous_limit(error: &LimitError) -> Iperf3Error {
    match error.option {
        "streams" => Iperf3Error::Streams,
        "rate" => Iperf3Error::TotalRate,
        _ => Iperf3Error::Duration,
    }
}
