//! The capture at one end of a run: it starts before the streams open and ends after they close.

use super::filter::FlowFilter;
use super::running::Capturing;
use super::store::Captured;
use super::{caveats, missing};
use crate::drive::Collected;
use crate::session::Role;
use longhaul_model::report::v1::Caveat;
use longhaul_model::report::v1::capture::{Capture, CapturePlan};
use longhaul_model::report::v1::observation::StreamEnd;
use longhaul_model::report::v1::plan::{Plan, Transport};
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// The state of this end's capture.
#[derive(Debug, Default)]
pub(crate) enum Beside {
    /// No capture was requested.
    #[default]
    Nothing,
    Going(Capturing),
    /// A capture was requested but could not be started; the caveat says why.
    Without(Caveat),
}

impl Beside {
    /// Captures the streams of `plan` between the addresses of the control connection.
    pub fn begin(
        (plan, capture): (&Plan, CapturePlan),
        opener: SocketAddr,
        listener: SocketAddr,
        most_bytes: u64,
    ) -> Beside {
        let canonical = |address: SocketAddr| address.ip().to_canonical();
        let filter = FlowFilter {
            udp: plan.transport != Transport::Tcp,
            opener: canonical(opener),
            listener: SocketAddr::new(canonical(listener), listener.port()),
            control_port: opener.port(),
        };
        match Capturing::start(&filter, capture, most_bytes) {
            Ok(capturing) => Beside::Going(capturing),
            Err(error) => Beside::Without(missing(&error)),
        }
    }

    /// Ends the capture, and discards packets of other runs between the same hosts.
    pub fn end(self, role: Role, collected: &Collected) -> (Option<Captured>, Vec<Caveat>) {
        match self {
            Beside::Nothing => (None, Vec::new()),
            Beside::Without(caveat) => (None, vec![caveat]),
            Beside::Going(capturing) => {
                let Some(mut captured) = capturing.finish() else {
                    let text = "no capture: its thread failed".to_owned();
                    return (None, vec![Caveat::new("capture_missing", text)]);
                };
                captured.keep_only(&opener_ports(role, collected));
                let caveats = caveats(captured.about());
                (Some(captured), caveats)
            }
        }
    }
}

fn opener_ports(role: Role, collected: &Collected) -> BTreeSet<u16> {
    let own = |stream: &StreamEnd| {
        let address = match role {
            Role::Initiator => stream.local.as_ref(),
            Role::Responder => stream.peer.as_ref(),
        };
        Some(address?.parse::<SocketAddr>().ok()?.port())
    };
    let ends = [&collected.sender, &collected.receiver];
    let streams = ends.into_iter().flatten().flat_map(|end| &end.streams);
    streams.filter_map(own).collect()
}

/// Attaches the capture and its caveats to the results of the first direction.
pub(crate) fn attach(
    collected: &mut Collected,
    role: Role,
    about: Option<Capture>,
    caveats: Vec<Caveat>,
) {
    let (sender, receiver) = (collected.sender.as_mut(), collected.receiver.as_mut());
    let first = match role {
        Role::Initiator => sender.or(receiver),
        Role::Responder => receiver.or(sender),
    };
    if let Some(end) = first {
        end.end.capture = about;
        end.caveats.extend(caveats);
    }
}
