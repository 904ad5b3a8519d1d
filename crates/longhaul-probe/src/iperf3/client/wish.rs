//! What a test with an iperf3 server is asked beyond a plan of ours.

use super::login::Login;
use crate::iperf3::wire::Parameters;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// All of it may be left out.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wish<'a> {
    /// Who measures, where the server wants to know.
    pub login: Option<&'a Login>,
    /// The server omits as many seconds as we do, as iperf3's clients ask; the plan's time has them
    /// in it. Absent: it counts all, so that both ends' bytes are of the same time.
    pub omit_seconds: Option<u32>,
    /// Blocks sent at once under a rate, by the server.
    pub burst: Option<u32>,
    pub title: Option<&'a str>,
    pub extra_data: Option<&'a str>,
    pub server_output: bool,
    pub repeating_payload: bool,
    pub do_not_fragment: bool,
    /// The test ends when no payload comes for so long.
    pub silence: Option<Duration>,
    /// The test ends when somebody sets it.
    pub stop: Option<&'a AtomicBool>,
}

impl Wish<'_> {
    /// Adds it to what the plan asks.
    pub(super) fn add_to(&self, parameters: &mut Parameters) {
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
