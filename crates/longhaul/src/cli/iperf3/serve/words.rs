//! What iperf3 says of a test that did not end well.

use longhaul_probe::iperf3::server::Closed;
use longhaul_probe::iperf3::wire::{Refusal, Trouble};

/// When a signal ends the server.
pub const INTERRUPTED: &str = "interrupt - the server has terminated";

/// The error of a test; `None`: it has none. `interrupted`: this server is being ended.
pub fn error(closed: &Closed, interrupted: bool) -> Option<String> {
    match closed {
        Closed::Finished | Closed::Busy(_) => None,
        Closed::ClientTerminated => Some("the client has terminated".to_owned()),
        Closed::Gone(..) => Some("the client has unexpectedly closed the connection".to_owned()),
        Closed::Terminated(_) if interrupted => Some(INTERRUPTED.to_owned()),
        Closed::Terminated(why) => Some(format!("error - the test was ended: {why}")),
        Closed::Refused(trouble, why) => Some(match known(*trouble) {
            Some(words) => format!("error - {words}"),
            None => format!("error - {}: {why}", Refusal::from(*trouble)),
        }),
    }
}

/// Those that scripts look for.
fn known(trouble: Trouble) -> Option<&'static str> {
    match trouble {
        Trouble::TotalRate => Some("total required bandwidth is larger than server limit"),
        Trouble::DurationAboveLimit => {
            Some("client's requested duration exceeds the server's maximum permitted limit")
        }
        Trouble::Authentication => Some("test authorization failed"),
        Trouble::Silence => Some("idle timeout for receiving data"),
        _ => None,
    }
}

/// Is this client one that `--one-off` waits for? As in iperf3, one that is not let in is not.
pub fn counts(closed: &Closed) -> bool {
    !matches!(
        closed,
        Closed::Busy(_) | Closed::Refused(Trouble::Authentication, _)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_probe::iperf3::server::Step;

    #[test]
    fn errors_are_those_that_3_12_prints() {
        let gone = Closed::Gone(Step::Running, "reset".to_owned());
        let words = error(&gone, false).expect("an error");
        assert_eq!(words, "the client has unexpectedly closed the connection");
        let refused = Closed::Refused(Trouble::TotalRate, "much".to_owned());
        let words = error(&refused, false).expect("an error");
        assert_eq!(
            words,
            "error - total required bandwidth is larger than server limit"
        );
        let stopped = Closed::Terminated("stopping".to_owned());
        assert_eq!(error(&stopped, true).as_deref(), Some(INTERRUPTED));
        assert_eq!(error(&Closed::Finished, true), None);
    }

    #[test]
    fn who_is_not_let_in_is_not_the_one_test() {
        let refused = Closed::Refused(Trouble::Authentication, String::new());
        assert!(!counts(&refused) && !counts(&Closed::Busy(String::new())));
        assert!(counts(&Closed::Refused(Trouble::Mss, String::new())));
    }
}
