//! Decides whether a test is admitted.

use super::super::follow::Accepted;
use super::super::limits::Metered;
use super::super::streams::Awaited;
use super::{Granted, Session, strangers};
use crate::iperf3::server::{Fault, Input};
use crate::iperf3::wire::{Parameters, Test, Transport, Trouble};
use crate::iperf3::{plan, stranger_trouble};
use crate::limits::check_anonymous;
use crate::serve::event::ServeEvent;
use crate::serve::hooks::in_words;
use crate::told::one_line;
use longhaul_model::report::v1::plan::{Affinity, Plan};
use std::net::SocketAddr;
use std::sync::Arc;

const MOST_VERSION: usize = 16;

impl<'a> Session<'a> {
    /// Admits or rejects the test, or waits for its turn.
    pub(super) fn admit(&mut self, asked: Box<(Parameters, Test)>) {
        let turn = match asked.1.transport {
            Transport::Tcp => None,
            Transport::Udp => {
                let book = &self.service.book;
                let Some(turn) = book.turn(self.peer.ip(), asked.1.all_streams()) else {
                    self.waiting = Some(asked);
                    return;
                };
                Some(turn)
            }
        };
        let (asked, test) = *asked;
        let plan = self.plan(&test);
        let metered = match self.check(&asked, &test, &plan) {
            Ok(metered) => metered,
            Err((trouble, why)) => return self.feed(Input::Failed(trouble, why)),
        };
        let most = strangers(self.service, self.options).map(|most| most.concurrent);
        let slot = match self.service.slots.take(most) {
            Ok(slot) => slot,
            Err(why) => return self.feed(Input::Busy(why)),
        };
        let Some(entry) = self.service.book.enter(self.cookie, test.all_streams()) else {
            return self.feed(Input::Busy("its cookie is in use".to_owned()));
        };
        self.tell(&asked, &test, &plan);
        let local = SocketAddr::new(self.local.ip(), self.port.address.port());
        let device = self.service.options.device.as_deref();
        self.granted = Some(Granted {
            awaited: Some(Awaited::new(entry, turn, local, device)),
            plan,
            test,
            metered,
            _slot: slot,
        });
        self.pending = None;
        self.feed(Input::Admitted);
    }

    fn plan(&self, test: &Test) -> Plan {
        let mut plan = plan(test);
        if let Some(core) = self.options.core {
            plan.affinity = Affinity::Cores {
                initiator: Vec::new(),
                responder: vec![core],
            };
        }
        plan
    }

    fn tell(&mut self, asked: &Parameters, test: &Test, plan: &Plan) {
        let version = asked.client_version.as_deref().unwrap_or("before 3.1");
        (self.service.log)(ServeEvent::SessionOpened {
            peer: self.peer,
            host: format!("iperf3 {}", one_line(version, MOST_VERSION)),
            anonymous: self.options.users.is_none(),
            what: in_words(plan),
        });
        let following = self.options.following.as_ref();
        self.follower = following.map(|following| {
            Arc::clone(&following.by).accepted(Accepted {
                peer: self.peer,
                port: self.port.address.port(),
                cookie: self.cookie,
                asked: asked.clone(),
                test: test.clone(),
            })
        });
    }

    /// Checks whether this client may run this test.
    fn check(
        &self,
        asked: &Parameters,
        test: &Test,
        plan: &Plan,
    ) -> Result<Option<Metered<'a>>, Fault> {
        if test.streams > self.service.options.max_streams {
            let most = self.service.options.max_streams;
            return Err((Trouble::Streams, format!("at most {most} streams")));
        }
        let limits = &self.options.limits;
        if let Some(users) = &self.options.users {
            users.check(asked.authtoken.as_deref())?;
        } else if let Some(strangers) = strangers(self.service, self.options) {
            let refused = |error| (stranger_trouble(&error), error.to_string());
            check_anonymous(plan, &strangers).map_err(refused)?;
        } else if !limits.strangers_unlimited {
            let why = "strangers are turned away, and iperf3 knows no token";
            return Err((Trouble::Authentication, why.to_owned()));
        }
        limits.check_time(test)?;
        let meter = &self.service.book.meter;
        limits
            .rate
            .map(|limit| meter.enter(test, limit))
            .transpose()
    }
}
