//! The cookie of a test: the first bytes of its control connection and of each data connection.

use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;
use std::io;

/// The length of a cookie, including its zero byte.
pub const COOKIE_BYTES: usize = 37;
/// The alphabet of cookies since 3.2: 32 letters, so that a random byte selects each evenly.
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// A test's cookie: random since 3.2; before, host name, time and digits. Any 37 bytes are valid.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TestCookie(pub [u8; COOKIE_BYTES]);

impl TestCookie {
    /// Returns a new random cookie.
    ///
    /// # Errors
    /// The system provides no random bytes.
    pub fn random() -> io::Result<TestCookie> {
        let mut bytes = [0; COOKIE_BYTES];
        let (text, _) = bytes.split_at_mut(COOKIE_BYTES - 1);
        SystemRandom::new()
            .fill(text)
            .map_err(|_| io::Error::other("the kernel provides no random bytes"))?;
        for byte in text {
            *byte = LETTERS[usize::from(*byte % 32)];
        }
        Ok(TestCookie(bytes))
    }

    /// Returns whether a connection's first bytes may begin a cookie: random letters since 3.2, a
    /// host name before.
    pub fn may_begin_with(bytes: &[u8]) -> bool {
        let text = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        bytes.iter().take(COOKIE_BYTES - 1).all(text)
    }
}

impl fmt::Debug for TestCookie {
    /// Shows only the beginning, because a cookie allows joining its test.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let front: String = self.0.iter().take(4).map(|byte| *byte as char).collect();
        write!(f, "Cookie({}…)", front.escape_debug())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_cookie_is_36_letters_and_a_zero_and_no_other_one() {
        let cookie = TestCookie::random().expect("randomness");
        assert!(cookie.0[..36].iter().all(|byte| LETTERS.contains(byte)));
        assert_eq!(cookie.0[36], 0);
        assert!(TestCookie::may_begin_with(&cookie.0));
        assert_ne!(TestCookie::random().expect("randomness"), cookie);
        assert!(TestCookie::may_begin_with(b"my-host.example.1443"));
        assert!(!TestCookie::may_begin_with(b"GET /"));
        assert!(!TestCookie::may_begin_with(&[0x16, 3, 1]));
    }
}
