//! A printed figure: its value, its unit, and its precision.
//!
//! `4.92 GB` is any value from 4.915 to 4.925 GB. `about` adds a tenth on either side; `more than`
//! and `less than` leave one side open. Units: bytes, seconds, bit/s, metres, bit·m/s, ratios.
//! Wrong when: trailing zeros were padded, or digits truncated rather than rounded.

use longhaul_model::units::ParseUnitError;

/// The interval of values that a printed figure may stand for; the upper end may be infinite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FigureInterval {
    pub low: f64,
    pub high: f64,
}

impl FigureInterval {
    pub fn contains(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    pub fn overlaps(self, other: FigureInterval) -> bool {
        self.low <= other.high && other.low <= self.high
    }

    pub fn times(self, other: FigureInterval) -> FigureInterval {
        FigureInterval { low: self.low * other.low, high: self.high * other.high }
    }

    pub fn scaled(self, factor: f64) -> FigureInterval {
        let (low, high) = (factor, factor);
        self.times(FigureInterval { low, high })
    }
}

/// A kind of quantity: its description, and its units with their size in the base unit.
#[derive(Debug)]
pub struct FigureKind {
    expected: &'static str,
    units: &'static [(&'static [&'static str], f64)],
}

const KIB: f64 = 1024.0;

pub const BYTES: FigureKind = FigureKind {
    expected: "a volume: a number with B, kB, MB, GB, TB, KiB, MiB, GiB, TiB or bits",
    units: &[
        (&["B", "byte", "bytes"], 1.0),
        (&["kB", "KB", "kbyte", "kbytes", "kilobytes"], 1e3),
        (&["MB", "Mbyte", "Mbytes", "megabytes", "MEG"], 1e6),
        (&["GB", "Gbyte", "Gbytes", "gigabytes"], 1e9),
        (&["TB", "Tbyte", "Tbytes", "terabytes"], 1e12),
        (&["KiB"], KIB),
        (&["MiB"], KIB * KIB),
        (&["GiB"], KIB * KIB * KIB),
        (&["TiB"], KIB * KIB * KIB * KIB),
        (&["bit", "bits"], 1.0 / 8.0),
        (&["Gbit"], 1e9 / 8.0),
        (&["Tbit"], 1e12 / 8.0),
    ],
};
pub const SECONDS: FigureKind = FigureKind {
    expected: "a duration: a number with us, ms, s, min or h",
    units: &[
        (&["us", "µs"], 1e-6),
        (&["ms"], 1e-3),
        (&["s", "sec", "second", "seconds"], 1.0),
        (&["min", "minute", "minutes"], 60.0),
        (&["h", "hour", "hours"], 3600.0),
    ],
};
pub const BITS_PER_SECOND: FigureKind = FigureKind {
    expected: "a rate: a number with bit/s, kbit/s, Mbit/s, Gbit/s or Tbit/s",
    units: &[
        (&["bit/s", "bps"], 1.0),
        (&["kbit/s", "Kbit/s", "kbps", "Kbps"], 1e3),
        (&["Mbit/s", "Mbits/s", "Mbps", "Mb/s", "Mbit/sec"], 1e6),
        (&["Gbit/s", "Gbits/s", "Gbps", "Gb/s", "Gbit/sec"], 1e9),
        (&["Tbit/s", "Tbps", "Tb/s"], 1e12),
    ],
};
pub const METRES: FigureKind = FigureKind {
    expected: "a distance: a number with m, km or miles",
    units: &[
        (&["m", "metre", "metres", "meters"], 1.0),
        (&["km", "kilometres", "kilometers"], 1e3),
        (&["mi", "mile", "miles"], 1609.344),
    ],
};
pub const BIT_METRES_PER_SECOND: FigureKind = FigureKind {
    expected: "a mark: a number with bit·m/s, Tb·m/s or Pb·m/s",
    units: &[
        (&["bit·m/s", "b·m/s", "meters-bits/sec", "bit-metres/s"], 1.0),
        (&["Tb·m/s", "Tbit·m/s", "Tbmps"], 1e12),
        (&["Pb·m/s", "Pbit·m/s", "Pbmps"], 1e15),
    ],
};
pub const RATIO: FigureKind = FigureKind {
    expected: "a ratio: a number, or one with %",
    units: &[(&["%"], 0.01), (&[""], 1.0)],
};
pub const NUMBER: FigureKind = FigureKind { expected: "a number", units: &[(&[""], 1.0)] };

impl FigureKind {
    fn unit(&self, word: &str) -> Option<(&'static str, f64)> {
        let words = self.units.iter();
        let mut words = words.flat_map(|(words, size)| words.iter().map(|word| (*word, *size)));
        words.find(|(known, _)| *known == word)
    }
}

/// A printed figure, in the base unit of its kind.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimFigure {
    pub text: String,
    pub value: f64,
    pub span: FigureInterval,
    /// The printed unit, and its size in base units.
    word: &'static str,
    unit: f64,
    decimals: usize,
}

/// The factors of the lower and the upper end of a figure after a word.
type BoundFactors = [f64; 2];

const EXACT: BoundFactors = [1.0, 1.0];
const ABOUT: BoundFactors = [0.9, 1.1];
const ABOVE: BoundFactors = [1.0, f64::INFINITY];
const BELOW: BoundFactors = [0.0, 1.0];

const BOUNDS: &[(&str, BoundFactors)] = &[
    ("about", ABOUT),
    ("around", ABOUT),
    ("ca.", ABOUT),
    ("~", ABOUT),
    ("more than", ABOVE),
    ("over", ABOVE),
    (">", ABOVE),
    ("less than", BELOW),
    ("under", BELOW),
    ("<", BELOW),
];

impl ClaimFigure {
    /// Parses a printed figure; several parts add up, as in `10 min 38 s`.
    pub fn parse(text: &str, of: &FigureKind) -> Result<ClaimFigure, ParseUnitError> {
        parse_figure(text, of)
            .ok_or_else(|| ParseUnitError { text: text.to_owned(), expected: of.expected })
    }

    /// Formats another value in this unit, with six digits or as many decimals as were printed.
    pub fn format_like(&self, value: f64) -> String {
        // Large values in bit·m/s are unreadable.
        let (word, unit) = match self.word {
            "meters-bits/sec" | "bit·m/s" | "b·m/s" | "bit-metres/s" => ("Tb·m/s", 1e12),
            word => (word, self.unit),
        };
        let number = value / unit;
        let whole = number.abs().max(1.0).log10().floor() as usize;
        let decimals = 5usize.saturating_sub(whole).min(3).max(self.decimals.min(3));
        let text = format!("{number:.decimals$}");
        let text = if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.')
        } else {
            &text
        };
        let gap = if word.is_empty() { "" } else { " " };
        format!("{text}{gap}{word}")
    }
}

/// The maximum length of a printed figure.
const MAX_FIGURE_LENGTH: usize = 100;

fn parse_figure(text: &str, of: &FigureKind) -> Option<ClaimFigure> {
    if text.len() > MAX_FIGURE_LENGTH {
        return None;
    }
    let ([lower, upper], mut rest) = split_bound(text.trim());
    let (mut value, mut half, mut unit) = (0.0, 0.0, ("", 1.0));
    let mut parts = 0;
    while !rest.is_empty() {
        let (number, digit, after) = parse_leading_number(rest)?;
        let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        unit = of.unit(after[..end].trim())?;
        value += number * unit.1;
        half = digit * unit.1 / 2.0;
        rest = &after[end..];
        parts += 1;
    }
    let usable = parts > 0 && f64::is_finite(value) && value > 0.0;
    usable.then(|| ClaimFigure {
        text: text.trim().to_owned(),
        value,
        span: FigureInterval { low: (value - half).max(0.0) * lower, high: (value + half) * upper },
        word: unit.0,
        unit: unit.1,
        decimals: (unit.1 / (2.0 * half)).log10().round().max(0.0) as usize,
    })
}

fn split_bound(text: &str) -> (BoundFactors, &str) {
    let lead = BOUNDS.iter().find_map(|(word, bound)| Some((*bound, text.strip_prefix(word)?)));
    lead.map_or((EXACT, text), |(bound, rest)| (bound, rest.trim_start()))
}

/// Returns the leading number, the value of its last digit, and the rest. Thousands may be
/// separated by spaces, commas or underscores.
fn parse_leading_number(text: &str) -> Option<(f64, f64, &str)> {
    let mut digits = String::new();
    let mut decimals: Option<i32> = None;
    let mut end = 0;
    for (at, c) in text.char_indices() {
        match c {
            '0'..='9' => {
                digits.push(c);
                decimals = decimals.map(|count| count + 1);
            }
            '.' if decimals.is_none() => {
                digits.push(c);
                decimals = Some(0);
            }
            ',' | ' ' | '_' if decimals.is_none() && is_thousands(&text[at + 1..]) => {}
            _ => break,
        }
        end = at + c.len_utf8();
    }
    let value: f64 = digits.parse().ok()?;
    Some((value, 10f64.powi(-decimals.unwrap_or(0)), &text[end..]))
}

/// Returns whether exactly three digits follow.
fn is_thousands(rest: &str) -> bool {
    rest.chars().take_while(char::is_ascii_digit).count() == 3
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn figure(text: &str, of: &FigureKind) -> ClaimFigure {
        ClaimFigure::parse(text, of).unwrap()
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * b.abs()
    }

    #[test]
    fn printed_digits_say_how_exact_a_figure_is() {
        let volume = figure("4.92 GB", &BYTES);
        assert!(near(volume.value, 4.92e9));
        assert!(near(volume.span.low, 4.915e9) && near(volume.span.high, 4.925e9));
        let duration = figure("1001 s", &SECONDS);
        assert!(near(duration.span.low, 1000.5));
    }

    #[test]
    fn units_and_thousands_are_read_as_people_print_them() {
        for (text, of, value) in [
            ("28 983 km", &METRES, 28_983e3),
            ("18,013 miles", &METRES, 18_013.0 * 1609.344),
            ("1,099,850,260,480 bits", &BYTES, 1_099_850_260_480.0 / 8.0),
            ("498587.5456 MB", &BYTES, 498_587.545_6e6),
            ("10 min 38 s", &SECONDS, 638.0),
            ("6.25 Gbps", &BITS_PER_SECOND, 6.25e9),
            ("122.367 Pb·m/s", &BIT_METRES_PER_SECOND, 122.367e15),
            ("68,431,250,000,000,000 meters-bits/sec", &BIT_METRES_PER_SECOND, 68_431.25e12),
            ("17 %", &RATIO, 0.17),
        ] {
            let read = figure(text, of);
            assert!(near(read.value, value), "{text}: {}", read.value);
        }
    }

    #[test]
    fn words_leave_room_or_a_side_open() {
        assert!(figure("about 60 min", &SECONDS).span.contains(3397.0));
        assert!(figure("> 1 TB", &BYTES).span.high.is_infinite());
        assert!(figure("less than 30 min", &SECONDS).span.contains(60.0));
    }

    #[test]
    fn what_is_no_figure_is_refused_with_what_is_expected() {
        for text in ["", "fast", "-3 km", "3 parsecs", "3 km x", "1e5 km", "0 km", "3.1.4 km"] {
            let error = ClaimFigure::parse(text, &METRES).unwrap_err();
            assert_eq!(error.text, text);
            assert!(error.expected.starts_with("a distance"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,120}") {
            for of in [&BYTES, &SECONDS, &METRES, &RATIO, &NUMBER] {
                if let Ok(figure) = ClaimFigure::parse(&text, of) {
                    prop_assert!(figure.span.low <= figure.value);
                    prop_assert!(figure.value <= figure.span.high);
                }
            }
        }
    }
}
