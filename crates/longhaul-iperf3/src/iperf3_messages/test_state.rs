//! The state byte: a signed byte that announces the step of a test.

/// The step of a test, as announced by the server; three of them come from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TestState {
    TestStart = 1,
    TestRunning = 2,
    /// The client has sent or received everything requested.
    TestEnd = 4,
    /// The client may send its parameters.
    ParameterExchange = 9,
    /// The client may open its data connections.
    CreateStreams = 10,
    ServerTerminate = 11,
    /// The client has ended the test early.
    ClientTerminate = 12,
    /// The client sends its results, then the server sends its own.
    ExchangeResults = 13,
    DisplayResults = 14,
    /// The client has completed the test.
    Done = 16,
    /// The client prints that the server is busy.
    AccessDenied = 0xff,
    /// Eight bytes of [`Iperf3Error`](super::Iperf3Error) follow.
    ServerError = 0xfe,
}

impl TestState {
    pub const ALL: [TestState; 12] = [
        TestState::TestStart,
        TestState::TestRunning,
        TestState::TestEnd,
        TestState::ParameterExchange,
        TestState::CreateStreams,
        TestState::ServerTerminate,
        TestState::ClientTerminate,
        TestState::ExchangeResults,
        TestState::DisplayResults,
        TestState::Done,
        TestState::AccessDenied,
        TestState::ServerError,
    ];

    /// Returns the byte, which is the same from 3.0 to 3.22.
    pub fn byte(self) -> u8 {
        self as u8
    }

    /// Returns `None` for a byte that no version sends.
    pub fn from_byte(byte: u8) -> Option<TestState> {
        TestState::ALL.into_iter().find(|state| state.byte() == byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_its_own_state_or_none() {
        let known: Vec<u8> =
            (0..=255).filter(|byte| TestState::from_byte(*byte).is_some()).collect();
        assert_eq!(known, [1, 2, 4, 9, 10, 11, 12, 13, 14, 16, 0xfe, 0xff]);
        for state in TestState::ALL {
            assert_eq!(TestState::from_byte(state.byte()), Some(state));
        }
    }
}
