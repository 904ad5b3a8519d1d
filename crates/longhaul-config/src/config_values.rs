//! Values with units and ranges. Their errors have the form `is …; advice`.
//!
//! The functions are for `#[serde(deserialize_with = "…")]`: they return the value itself or an
//! `Option` of it, as the field wants. Quantities may be written with or without quotes.

use longhaul_model::units::{Bytes, ParseUnitError, Rate, format_duration, parse_duration};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{
    Deserialize, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The maximum size of a name, which appears in URLs, labels and file names.
const MAX_NAME_BYTES: usize = 64;
const MAX_TEXT_BYTES: usize = 4096;
/// The maximum number of texts in a list.
const MAX_TEXTS: usize = 10_000;

/// Returns whether a text is a name: letters, digits, `-`, `_`, `.`.
pub fn is_name(text: &str) -> bool {
    let is_allowed = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    !text.is_empty() && text.len() <= MAX_NAME_BYTES && text.chars().all(is_allowed)
}

/// A scalar as text: `1_000` is `1000`.
#[derive(Debug, Clone)]
pub struct ScalarText(pub String);

impl<'de> Deserialize<'de> for ScalarText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScalarVisitor;
        impl Visitor<'_> for ScalarVisitor {
            type Value = String;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or a quantity in quotes with its unit")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
                Ok(text.to_owned())
            }
            fn visit_i64<E: Error>(self, value: i64) -> Result<String, E> {
                Ok(value.to_string())
            }
            fn visit_u64<E: Error>(self, value: u64) -> Result<String, E> {
                Ok(value.to_string())
            }
            fn visit_f64<E: Error>(self, value: f64) -> Result<String, E> {
                Ok(value.to_string())
            }
        }
        deserializer.deserialize_any(ScalarVisitor).map(ScalarText)
    }
}

/// Reads a scalar as trimmed text: a line of text, or a number.
pub fn scalar<'de, D: Deserializer<'de>, R: From<String>>(from: D) -> Result<R, D::Error> {
    check_line(&ScalarText::deserialize(from)?.0).map(R::from)
}

/// Reads one line of text.
pub fn line<'de, D: Deserializer<'de>, R: From<String>>(from: D) -> Result<R, D::Error> {
    check_line(&String::deserialize(from)?).map(R::from)
}

fn check_line<E: Error>(text: &str) -> Result<String, E> {
    if text.trim().is_empty() || text.len() > MAX_TEXT_BYTES || text.contains(char::is_control) {
        return Err(E::custom("is not one line of text; write one line in quotes"));
    }
    Ok(text.trim().to_owned())
}

/// Reads a name: letters, digits, `-`, `_`, `.`.
pub fn name<'de, D: Deserializer<'de>, R: From<String>>(from: D) -> Result<R, D::Error> {
    let text: String = line(from)?;
    if !is_name(&text) {
        return Err(D::Error::custom(format!(
            "is not a name; use only letters, digits, - _ . and at most {MAX_NAME_BYTES} bytes"
        )));
    }
    Ok(R::from(text))
}

/// Reads a list of texts; a single text is a list of one.
pub fn texts<'de, D: Deserializer<'de>, R: From<Vec<String>>>(from: D) -> Result<R, D::Error> {
    #[derive(serde::Deserialize)]
    struct LineText(#[serde(deserialize_with = "line")] String);
    struct TextsVisitor;
    impl<'de> Visitor<'de> for TextsVisitor {
        type Value = Vec<LineText>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list such as [\"one\", \"two\"]")
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
            Ok(vec![LineText(check_line(text)?)])
        }
        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(list))
        }
    }
    let list = from.deserialize_any(TextsVisitor)?;
    if list.len() > MAX_TEXTS {
        let error = format!("is too long; write at most {MAX_TEXTS} entries");
        return Err(D::Error::custom(error));
    }
    Ok(R::from(list.into_iter().map(|it| it.0).collect()))
}

/// Reads a whole number in a range.
pub fn whole<'de, D, R, T, const MIN: u64, const MAX: u64>(from: D) -> Result<R, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u64>,
    R: From<T>,
{
    let ScalarText(text) = ScalarText::deserialize(from)?;
    let value = text.parse().ok().filter(|value| (MIN..=MAX).contains(value));
    let value = value.and_then(|value| T::try_from(value).ok());
    let advice = || format!("is invalid; write a whole number from {MIN} to {MAX}");
    value.map(R::from).ok_or_else(|| D::Error::custom(advice()))
}

/// Reads a number from `-MAX` to `MAX`.
pub fn degrees<'de, D: Deserializer<'de>, const MAX: u32>(
    from: D,
) -> Result<Option<f64>, D::Error> {
    let ScalarText(text) = ScalarText::deserialize(from)?;
    let value = text.parse::<f64>().ok();
    let value = value.filter(|value| value.abs() <= f64::from(MAX));
    let advice = || format!("is invalid; write a number from -{MAX} to {MAX}");
    value.map(Some).ok_or_else(|| D::Error::custom(advice()))
}

/// Reads a duration with its unit, including days and weeks, in a range of seconds.
pub fn duration<'de, D, R, const MIN_S: u64, const MAX_S: u64>(from: D) -> Result<R, D::Error>
where
    D: Deserializer<'de>,
    R: From<Duration>,
{
    let range = Duration::from_secs(MIN_S)..=Duration::from_secs(MAX_S);
    let value = read_quantity(from, parse_duration, "30 min")?;
    check_range(value, &range, |it| format_long_duration(*it)).map(R::from)
}

/// Reads a size in bytes in a range.
pub fn bytes<'de, D, R, T, const MIN: u64, const MAX: u64>(from: D) -> Result<R, D::Error>
where
    D: Deserializer<'de>,
    T: From<Bytes>,
    R: From<T>,
{
    let value = read_quantity(from, str::parse, "50 GB")?;
    let value = check_range(value, &(Bytes(MIN)..=Bytes(MAX)), Bytes::to_string)?;
    Ok(R::from(T::from(value)))
}

/// Reads a rate in a range of bit/s.
pub fn rate<'de, D, R, const MIN_BPS: u64, const MAX_BPS: u64>(from: D) -> Result<R, D::Error>
where
    D: Deserializer<'de>,
    R: From<Rate>,
{
    let range = Rate::bits_per_second(MIN_BPS)..=Rate::bits_per_second(MAX_BPS);
    let value = read_quantity(from, str::parse, "10 Gbit/s")?;
    check_range(value, &range, Rate::to_string).map(R::from)
}

/// Reads a share, `0.001` or `"0.1 %"`, in a range of thousandths.
pub fn share<'de, D, R, const MIN_MILLI: u32, const MAX_MILLI: u32>(from: D) -> Result<R, D::Error>
where
    D: Deserializer<'de>,
    R: From<f64>,
{
    let ScalarText(text) = ScalarText::deserialize(from)?;
    let value = match text.trim().strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|it| it / 100.0),
        None => text.trim().parse::<f64>(),
    };
    let [min, max] = [MIN_MILLI, MAX_MILLI].map(|it| f64::from(it) / 1000.0);
    let value = value.ok().filter(|it| (min..=max).contains(it));
    let advice = || {
        let (min, max) = (min * 100.0, max * 100.0);
        format!("is invalid; write a share from {min} % to {max} %, such as \"10 %\" or 0.1")
    };
    value.map(R::from).ok_or_else(|| D::Error::custom(advice()))
}

fn read_quantity<'de, D: Deserializer<'de>, T>(
    from: D,
    parse: impl Fn(&str) -> Result<T, ParseUnitError>,
    example: &str,
) -> Result<T, D::Error> {
    let ScalarText(text) = ScalarText::deserialize(from)?;
    parse(&text).map_err(|error| {
        let expected = error.expected;
        D::Error::custom(format!("is not {expected}; write for example \"{example}\""))
    })
}

fn check_range<T: PartialOrd, E: Error>(
    value: T,
    range: &RangeInclusive<T>,
    show: impl Fn(&T) -> String,
) -> Result<T, E> {
    if range.contains(&value) {
        return Ok(value);
    }
    let (min, max) = (show(range.start()), show(range.end()));
    Err(E::custom(format!("is out of range; allowed: {min} to {max}")))
}

/// A value, or the text `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueOrNone<T>(pub Option<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ValueOrNone<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(NoneVisitor(PhantomData)).map(ValueOrNone)
    }
}

struct NoneVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for NoneVisitor<T> {
    type Value = Option<T>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or \"none\"")
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        match text {
            "none" => Ok(None),
            text => T::deserialize(text.into_deserializer()).map(Some),
        }
    }
    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        T::deserialize(value.into_deserializer()).map(Some)
    }
    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        T::deserialize(value.into_deserializer()).map(Some)
    }
    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        T::deserialize(value.into_deserializer()).map(Some)
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }
}

/// Formats a long duration: `6 h`, `11 h 39 min`, `2 d`.
pub fn format_long_duration(duration: Duration) -> String {
    let minutes = duration.as_secs() / 60;
    let (days, hours, rest) = (minutes / 1440, minutes / 60 % 24, minutes % 60);
    match (days, hours, rest) {
        (0, 0, m) if m < 2 => format_duration(duration),
        (0, 0, m) => format!("{m} min"),
        (0, h, 0) => format!("{h} h"),
        (0, h, m) => format!("{h} h {m} min"),
        (d, 0, _) => format!("{d} d"),
        (d, h, _) => format!("{d} d {h} h"),
    }
}
