//! Numbers and flags as different versions write them.
//!
//! Version 3.1 writes every number with six significant digits, for example a byte count as
//! `1.23457e+09`; 3.12 writes -1 as 18446744073709551615. Flags are `true` or 1.

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serializer};

/// 2^63: larger floats do not fit into an `i64`.
const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;

/// A number or a flag as it was written.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number, true or false")]
enum LenientNumber {
    Flag(bool),
    Signed(i64),
    /// Larger values were negative numbers written without a sign.
    Unsigned(u64),
    Float(f64),
}

pub(super) fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    match LenientNumber::deserialize(from)? {
        LenientNumber::Flag(_) => Err(D::Error::custom("expected a whole number, not a flag")),
        LenientNumber::Signed(value) => Ok(value),
        LenientNumber::Unsigned(value) => Ok(value as i64),
        LenientNumber::Float(value) if value == 2.0 * TWO_POW_63 => Ok(-1),
        LenientNumber::Float(value) if value.abs() < TWO_POW_63 => Ok(value.round() as i64),
        LenientNumber::Float(value) => {
            Err(D::Error::custom(format!("{value} is not a whole number of 64 bits")))
        }
    }
}

pub(super) fn whole_if<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    whole(from).map(Some)
}

pub(super) fn flag<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    Ok(match LenientNumber::deserialize(from)? {
        LenientNumber::Flag(flag) => flag,
        LenientNumber::Signed(value) => value != 0,
        LenientNumber::Unsigned(value) => value != 0,
        LenientNumber::Float(value) => value != 0.0,
    })
}

/// Serializes a flag that iperf3 writes as a number.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde asks for")]
pub(super) fn one<S: Serializer>(flag: &bool, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u8(u8::from(*flag))
}

/// Returns whether a flag is unset and need not be sent.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde asks for")]
pub(super) fn unset(flag: &bool) -> bool {
    !*flag
}
