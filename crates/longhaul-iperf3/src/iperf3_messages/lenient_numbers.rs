//! Numbers and flags as different versions write them.
//!
//! Version 3.1 writes every number with six significant digits, for example a byte count as
//! `1.23457e+09`; 3.12 writes -1 as 18446744073709551615. Flags are `true` or 1.

use serde::Serializer;
use serde::de::{Deserializer, Error, Visitor};
use std::fmt;

/// 2^63: larger floats do not fit into an `i64`.
const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;

struct WholeVisitor;

impl Visitor<'_> for WholeVisitor {
    type Value = i64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number")
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<i64, E> {
        Ok(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<i64, E> {
        // Larger values were negative numbers written without a sign.
        Ok(value as i64)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<i64, E> {
        if value == 2.0 * TWO_POW_63 {
            return Ok(-1);
        }
        if value.abs() < TWO_POW_63 {
            return Ok(value.round() as i64);
        }
        Err(E::custom(format!("{value} is not a whole number of 64 bits")))
    }
}

struct FlagVisitor;

impl Visitor<'_> for FlagVisitor {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true, false or a number")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<bool, E> {
        Ok(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<bool, E> {
        Ok(value != 0)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<bool, E> {
        Ok(value != 0)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<bool, E> {
        Ok(value != 0.0)
    }
}

pub(super) fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    from.deserialize_any(WholeVisitor)
}

pub(super) fn whole_if<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    whole(from).map(Some)
}

pub(super) fn flag<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    from.deserialize_any(FlagVisitor)
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
