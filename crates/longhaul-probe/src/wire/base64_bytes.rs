//! Bytes in JSON, as base64 (RFC 4648, section 4).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// The maximum number of bytes in a message: as base64 they fit well into a result's frame.
pub const MAX_BASE64_BYTES: usize = 1 << 20;

/// Arbitrary bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Base64Bytes(pub Vec<u8>);

impl From<Base64Bytes> for String {
    fn from(packed: Base64Bytes) -> String {
        STANDARD.encode(packed.0)
    }
}

impl TryFrom<String> for Base64Bytes {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let bytes = STANDARD.decode(text).map_err(|_| "expected base64")?;
        if bytes.len() > MAX_BASE64_BYTES {
            return Err("more than 1 MiB in one message");
        }
        Ok(Base64Bytes(bytes))
    }
}
