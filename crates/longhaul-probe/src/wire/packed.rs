//! Bytes in JSON, as base64 (RFC 4648, section 4).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// The maximum number of bytes in a message: as base64 they fit well into a result's frame.
pub const MOST_PACKED_BYTES: usize = 1 << 20;

/// Arbitrary bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Packed(pub Vec<u8>);

impl From<Packed> for String {
    fn from(packed: Packed) -> String {
        STANDARD.encode(packed.0)
    }
}

impl TryFrom<String> for Packed {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let bytes = STANDARD.decode(text).map_err(|_| "bytes are base64")?;
        if bytes.len() > MOST_PACKED_BYTES {
            return Err("more than a mebibyte in one piece");
        }
        Ok(Packed(bytes))
    }
}
