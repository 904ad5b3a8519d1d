//! The state byte: a signed byte that announces the step of a test.

/// The step of a test, as announced by the server; three of them come from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    TestStart,
    TestRunning,
    /// The client has sent or received everything requested.
    TestEnd,
    /// The client may send its parameters.
    ParameterExchange,
    /// The client may open its data connections.
    CreateStreams,
    ServerTerminate,
    /// The client has ended the test early.
    ClientTerminate,
    /// The client sends its results, then the server sends its own.
    ExchangeResults,
    DisplayResults,
    /// The client has completed the test.
    Done,
    /// The client prints that the server is busy.
    AccessDenied,
    /// Eight bytes of [`Refusal`](super::Refusal) follow.
    ServerError,
}

impl State {
    pub const ALL: [State; 12] = [
        State::TestStart,
        State::TestRunning,
        State::TestEnd,
        State::ParameterExchange,
        State::CreateStreams,
        State::ServerTerminate,
        State::ClientTerminate,
        State::ExchangeResults,
        State::DisplayResults,
        State::Done,
        State::AccessDenied,
        State::ServerError,
    ];

    /// Returns the byte, which is the same from 3.0 to 3.22.
    pub fn byte(self) -> u8 {
        match self {
            State::TestStart => 1,
            State::TestRunning => 2,
            State::TestEnd => 4,
            State::ParameterExchange => 9,
            State::CreateStreams => 10,
            State::ServerTerminate => 11,
            State::ClientTerminate => 12,
            State::ExchangeResults => 13,
            State::DisplayResults => 14,
            State::Done => 16,
            State::AccessDenied => 0xff,
            State::ServerError => 0xfe,
        }
    }

    /// Returns `None` for a byte that no version sends.
    pub fn of(byte: u8) -> Option<State> {
        State::ALL.into_iter().find(|state| state.byte() == byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_its_own_state_or_none() {
        let known: Vec<u8> = (0..=255)
            .filter(|byte| State::of(*byte).is_some())
            .collect();
        assert_eq!(known, [1, 2, 4, 9, 10, 11, 12, 13, 14, 16, 0xfe, 0xff]);
        for state in State::ALL {
            assert_eq!(State::of(state.byte()), Some(state));
        }
    }
}
