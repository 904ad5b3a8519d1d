//! Errors of runs against an iperf3 server.

use super::client_test_end::ClientTestEnd;
use longhaul_probe::plan_limits::LimitError;
use longhaul_probe::probe_error::ProbeError;
use std::net::SocketAddr;

/// Error of a run against an iperf3 server that gave no result.
#[derive(Debug, thiserror::Error)]
pub enum Iperf3RunError {
    /// The plan is unsuitable, or the connection failed.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The test ended without a result.
    #[error("no result from the iperf3 server at {address}: {closed}")]
    Test { address: SocketAddr, closed: ClientTestEnd },
}

impl From<LimitError> for Iperf3RunError {
    fn from(error: LimitError) -> Self {
        Iperf3RunError::Probe(error.into())
    }
}

impl Iperf3RunError {
    /// Returns the suggested next step, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Iperf3RunError::Probe(error) => error.hint(),
            Iperf3RunError::Test { closed, .. } => closed.hint(),
        }
    }

    /// Returns the program's exit code, as [`ProbeError::exit_code`].
    pub fn exit_code(&self) -> u8 {
        match self {
            Iperf3RunError::Probe(error) => error.exit_code(),
            Iperf3RunError::Test { closed: ClientTestEnd::Failed(_), .. } => 5,
            Iperf3RunError::Test { .. } => 3,
        }
    }
}
