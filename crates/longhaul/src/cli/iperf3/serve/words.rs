//! What iperf3 says of a test that did not end well.

use longhaul_iperf3::iperf3_messages::{Iperf3Error, ServerRefusal};
use longhaul_iperf3::server_protocol::ServerTestEnd;

/// When a signal ends the server.
pub const INTERRUPTED: &str = "interrupt - the server has terminated";

/// The error of a test; `None`: it has none. `interrupted`: this server is being ended.
pub fn error(closed: &ServerTestEnd, interrupted: bool) -> Option<String> {
    match closed {
        ServerTestEnd::Finished | ServerTestEnd::Busy(_) => None,
        ServerTestEnd::ClientTerminated => Some("the client has terminated".to_owned()),
        ServerTestEnd::Gone(..) => {
            Some("the client has unexpectedly closed the connection".to_owned())
        }
        ServerTestEnd::Terminated(_) if interrupted => Some(INTERRUPTED.to_owned()),
        ServerTestEnd::Terminated(why) => Some(format!("error - the test was ended: {why}")),
        ServerTestEnd::Refused(trouble, why) => Some(match known(*trouble) {
            Some(words) => format!("error - {words}"),
            None => format!("error - {}: {why}", ServerRefusal::from(*trouble)),
        }),
    }
}

/// Those that scripts look for.
fn known(trouble: Iperf3Error) -> Option<&'static str> {
    match trouble {
        Iperf3Error::TotalRate => Some("total required bandwidth is larger than server limit"),
        Iperf3Error::DurationAboveLimit => {
            Some("client's requested duration exceeds the server's maximum permitted limit")
        }
        Iperf3Error::Authentication => Some("test authorization failed"),
        Iperf3Error::Silence => Some("idle timeout for receiving data"),
        _ => None,
    }
}

/// Is this client one that `--one-off` waits for? As in iperf3, one that is not let in is not.
pub fn counts(closed: &ServerTestEnd) -> bool {
    !matches!(
        closed,
        ServerTestEnd::Busy(_) | ServerTestEnd::Refused(Iperf3Error::Authentication, _)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_iperf3::server_protocol::ServerStep;

    #[test]
    fn errors_are_those_that_3_12_prints() {
        let gone = ServerTestEnd::Gone(ServerStep::Running, "reset".to_owned());
        let words = error(&gone, false).expect("an error");
        assert_eq!(words, "the client has unexpectedly closed the connection");
        let refused = ServerTestEnd::Refused(Iperf3Error::TotalRate, "much".to_owned());
        let words = error(&refused, false).expect("an error");
        assert_eq!(
            words,
            "error - total required bandwidth is larger than server limit"
        );
        let stopped = ServerTestEnd::Terminated("stopping".to_owned());
        assert_eq!(error(&stopped, true).as_deref(), Some(INTERRUPTED));
        assert_eq!(error(&ServerTestEnd::Finished, true), None);
    }

    #[test]
    fn who_is_not_let_in_is_not_the_one_test() {
        let refused = ServerTestEnd::Refused(Iperf3Error::Authentication, String::new());
        assert!(!counts(&refused) && !counts(&ServerTestEnd::Busy(String::new())));
        assert!(counts(&ServerTestEnd::Refused(
            Iperf3Error::Mss,
            String::new()
        )));
    }
}
