//! The options of a test with an iperf3 server that a plan does not contain.

use super::login::LoginCredentials;
use crate::iperf3_messages::TestParameters;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Options of a test; all are optional.
#[derive(Debug, Clone, Copy, Default)]
pub struct Iperf3TestOptions<'a> {
    /// The credentials, if the server requires authentication.
    pub login: Option<&'a LoginCredentials>,
    /// Seconds that the server omits as we do, as iperf3's clients request; included in the plan's
    /// time. `None`: it counts everything, so that the bytes of both ends cover the same time.
    pub omit_seconds: Option<u32>,
    /// The number of blocks that the server sends at once under a rate limit.
    pub burst: Option<u32>,
    pub title: Option<&'a str>,
    pub extra_data: Option<&'a str>,
    pub server_output: bool,
    pub repeating_payload: bool,
    pub do_not_fragment: bool,
    /// The timeout without payload, after which the test ends.
    pub silence: Option<Duration>,
    /// Set to end the test.
    pub stop: Option<&'a AtomicBool>,
}

impl Iperf3TestOptions<'_> {
    /// Adds these options to the plan's parameters.
    pub(super) fn add_to_parameters(&self, parameters: &mut TestParameters) {
        if let Some(omit) = self.omit_seconds {
            parameters.omit = Some(i64::from(omit));
            parameters.time = parameters.time.map(|time| (time - i64::from(omit)).max(0));
        }
        parameters.burst = self.burst.map(i64::from);
        parameters.title = self.title.map(str::to_owned);
        parameters.extra_data = self.extra_data.map(str::to_owned);
        parameters.get_server_output = self.server_output;
        parameters.repeating_payload = self.repeating_payload;
        parameters.dont_fragment = self.do_not_fragment;
    }
}
