//! Messages of a probe session.

use super::{Base64Bytes, FilesReply, FilesRequest};
use longhaul_model::report::v1::RunParty;
use longhaul_model::report::v1::available::TrainPlan;
use longhaul_model::report::v1::observation::TcpOptions;
use longhaul_model::report::v1::path::{
    ObservedRoute, ProbeProtocol, RoundTripPlan, RoundTripSeries, TracePlan,
};
use longhaul_model::serde_name::name_variant;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// The client proposes a probe session; replaces `propose`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeProposal {
    pub bounds: ProbeBounds,
    pub party: RunParty,
    pub boot_proof: Option<String>,
}

/// Limits of a probe session, for both directions together.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeBounds {
    /// UDP flows: none (for routes and options only) or one.
    pub flows: u32,
    /// IP bytes of trains and echoes.
    pub most_bytes: u64,
    /// Time from `accept` to `bye`.
    pub most_time_us: u64,
    /// DSCP of the server's datagrams.
    pub dscp: Option<u8>,
}

/// The client's next request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionRequest {
    /// Expect these trains from the client.
    Arm(Vec<TrainPlan>),
    /// Report their receive times, after this wait for outstanding packets.
    Collect(CollectTrains),
    /// Send these trains.
    Send(Vec<TrainPlan>),
    /// Trace the route to the client's address.
    Trace(ReverseTraceRequest),
    /// Measure round trips to the client's address.
    Echoes(RoundTripPlan),
    /// Report the TCP options in effect on the control connection.
    Options,
    /// Watch the TCP connections of the server's host with the client's; needs the token.
    Flows(FlowWatchRequest),
    /// A request about files.
    Files(Box<FilesRequest>),
}

/// The time of a watch and between its samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowWatchRequest {
    pub duration_us: u64,
    pub interval_us: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectTrains {
    pub wait_us: u64,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReverseTraceRequest {
    pub protocol: ProbeProtocol,
    pub port: Option<u16>,
    pub trace: TracePlan,
}

/// The server's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionReply {
    Armed,
    Seen(ReceivedTrains),
    Sent(SentTrains),
    Route(Box<ObservedRoute>),
    Echoes(RoundTripSeries),
    Options(SessionTcpOptions),
    /// A `FlowsObservation` of report v1 in JSON.
    Flows(Base64Bytes),
    Files(FilesReply),
    /// The request failed, with the reason. The session continues.
    Failed(String),
}

impl SessionReply {
    /// Returns the name for errors about an unexpected answer.
    pub fn name(&self) -> &'static str {
        name_variant(self)
    }
}

/// Received trains.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReceivedTrains {
    /// Source of the times: `kernel` or `user`.
    pub clock: String,
    pub trains: Vec<ReceivedTrain>,
    /// Datagrams of the flow that the kernel dropped because of a full buffer.
    pub overflowed: Option<u64>,
}

/// Receive times of one train, on the receiver's monotonic clock.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivedTrain {
    pub index: u32,
    pub times: PacketTimes,
    /// Movement of the wall clock against the monotonic one during the train.
    pub clock_step_ns: Option<i64>,
    /// The kernel dropped datagrams in or just before the train because of a full buffer.
    #[serde(default)]
    pub overflowed: bool,
}

/// Sent trains.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SentTrains {
    /// Speed of the outgoing interface, if the kernel reports it.
    pub interface_bps: Option<u64>,
    pub trains: Vec<SentTrain>,
}

/// Send times of one train, on the sender's monotonic clock.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentTrain {
    pub index: u32,
    /// Packets per send call.
    pub micro_burst_packets: u32,
    pub times: PacketTimes,
    /// Reason why the train is unusable.
    pub spoilt: Option<String>,
}

/// Times by packet, each as the difference from the previous present one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PacketTimes {
    /// Time of the first present packet.
    pub first_ns: u64,
    /// The first one is 0; absent: the packet is missing.
    pub steps: Vec<Option<i64>>,
}

/// The server's view of the control connection.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SessionTcpOptions {
    pub in_force: Option<TcpOptions>,
    pub mss_bytes: Option<u32>,
    /// Options that the server would offer according to its settings.
    pub offered: Option<TcpOptions>,
}

impl PacketTimes {
    /// Encodes times by packet.
    pub fn encode(times: &[Option<u64>]) -> PacketTimes {
        let first_ns = times.iter().flatten().next().copied().unwrap_or(0);
        let mut before = first_ns;
        let step = |time: &Option<u64>| {
            let time = (*time)?;
            let step = time.wrapping_sub(before) as i64;
            before = time;
            Some(step)
        };
        PacketTimes { first_ns, steps: times.iter().map(step).collect() }
    }

    /// Decodes times by packet; `None` if they exceed the clock's range, so the peer's data is
    /// invalid.
    pub fn decode(&self) -> Option<Vec<Option<u64>>> {
        let mut now = self.first_ns;
        let time = |step: &Option<i64>| match step {
            None => Some(None),
            Some(step) => {
                now = now.checked_add_signed(*step)?;
                Some(Some(now))
            }
        };
        self.steps.iter().map(time).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn absurd_steps_are_noticed_and_do_not_wrap() {
        let lie = |first_ns, steps: &[i64]| PacketTimes {
            first_ns,
            steps: steps.iter().copied().map(Some).collect(),
        };
        assert_eq!(lie(5, &[0, -6]).decode(), None);
        assert_eq!(lie(u64::MAX, &[0, 1]).decode(), None);
        assert_eq!(lie(5, &[0, -5]).decode(), Some(vec![Some(5), Some(0)]));
    }

    proptest! {
        #[test]
        fn times_come_back_as_they_were(
            times in prop::collection::vec(prop::option::of(0..u64::MAX / 2), 0..50),
        ) {
            prop_assert_eq!(PacketTimes::encode(&times).decode(), Some(times));
        }

        #[test]
        fn no_steps_of_a_liar_panic(
            first_ns: u64,
            steps in prop::collection::vec(prop::option::of(any::<i64>()), 0..50),
        ) {
            let _ = PacketTimes { first_ns, steps }.decode();
        }
    }
}
