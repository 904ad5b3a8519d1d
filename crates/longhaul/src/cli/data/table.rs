//! A sorted table of address ranges and what is said of them, as bytes: written once at import,
//! searched as it lies in memory.
//!
//! ```text
//! "LHRANGE1"  v4 ranges u32  v6 ranges u32  texts in bytes u32  notes in bytes u32
//! v4: first 4, last 4, AS 4, text 4      sorted by first, without overlap
//! v6: first 16, last 16, AS 4, text 4    likewise
//! texts: length u16, "organisation TAB place"
//! notes: source, time of import, licence
//! ```
//!
//! Numbers are big-endian, so that addresses compare as bytes do. AS 0 and text `u32::MAX` stand
//! for nothing said.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const MAGIC: &[u8; 8] = b"LHRANGE1";
const HEAD: usize = 24;
const V4: usize = 16;
const V6: usize = 40;
const NO_TEXT: u32 = u32::MAX;
/// Twice the largest set of cities that is given away.
pub const RANGES_MOST: usize = 16_000_000;
/// Letters of one text: it comes from strangers and ends in a table of 80 columns.
const TEXT_MOST: usize = 100;

/// What a set says of an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Says {
    pub autonomous_system: Option<u32>,
    /// Who runs it.
    pub organisation: Option<String>,
    /// City, country.
    pub place: Option<String>,
}

impl Says {
    pub fn is_empty(&self) -> bool {
        *self == Says::default()
    }
}

#[derive(Debug, Clone, Copy)]
struct Range {
    first: IpAddr,
    last: IpAddr,
    autonomous_system: u32,
    text: u32,
    /// Line of the file, or number of the network.
    origin: usize,
}

/// Ranges on their way into a table, in any order.
#[derive(Debug, Default)]
pub struct Builder {
    ranges: Vec<Range>,
    texts: Vec<u8>,
    places_of_texts: HashMap<String, u32>,
}

/// Two ranges that both claim an address, by where they stand in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overlap(pub usize, pub usize);

impl Builder {
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Takes a range up; why not, otherwise.
    pub fn push(
        &mut self,
        (first, last): (IpAddr, IpAddr),
        says: &Says,
        origin: usize,
    ) -> Result<(), String> {
        if first.is_ipv4() != last.is_ipv4() {
            return Err(format!("{first} and {last} are of two families"));
        }
        if first > last {
            return Err(format!(
                "the range ends at {last}, before its begin {first}"
            ));
        }
        if says.is_empty() {
            return Ok(());
        }
        if self.ranges.len() >= RANGES_MOST {
            return Err(format!("more than {RANGES_MOST} ranges"));
        }
        let text = self.text(says)?;
        let autonomous_system = says.autonomous_system.unwrap_or(0);
        self.ranges.push(Range {
            first,
            last,
            autonomous_system,
            text,
            origin,
        });
        Ok(())
    }

    /// Where the texts of `says` stand; each text stands once.
    fn text(&mut self, says: &Says) -> Result<u32, String> {
        if says.organisation.is_none() && says.place.is_none() {
            return Ok(NO_TEXT);
        }
        let part = |text: &Option<String>| printable(text.as_deref().unwrap_or_default());
        let text = format!("{}\t{}", part(&says.organisation), part(&says.place));
        if let Some(at) = self.places_of_texts.get(&text) {
            return Ok(*at);
        }
        let at = u32::try_from(self.texts.len()).map_err(|_| "too many texts".to_owned())?;
        let length = u16::try_from(text.len()).map_err(|_| "a text is too long".to_owned())?;
        self.texts.extend(length.to_be_bytes());
        self.texts.extend(text.as_bytes());
        self.places_of_texts.insert(text, at);
        Ok(at)
    }

    /// The table, with neighbours that say the same made one; and every overlap. Where two ranges
    /// overlap, the one that begins later holds: it is the narrower one, mostly.
    pub fn finish(mut self, notes: &str) -> (Vec<u8>, Vec<Overlap>) {
        self.ranges
            .sort_unstable_by_key(|range| (range.first, std::cmp::Reverse(range.last)));
        let mut sweep = Sweep::default();
        for range in self.ranges {
            sweep.take(range);
        }
        let (ranges, overlaps) = sweep.finish();
        (bytes(&ranges, &self.texts, notes), overlaps)
    }
}

/// Ranges in order of their begin become ranges without overlap.
#[derive(Debug, Default)]
struct Sweep {
    kept: Vec<Range>,
    /// What goes on behind a narrower range, the next to begin last.
    behind: Vec<Range>,
    overlaps: Vec<Overlap>,
}

impl Sweep {
    fn take(&mut self, range: Range) {
        while let Some(rest) = self.behind.pop_if(|rest| rest.first < range.first) {
            self.resume(rest);
        }
        if let Some(before) = self.kept.last_mut()
            && before.first.is_ipv4() == range.first.is_ipv4()
            && range.first <= before.last
        {
            let (a, b) = (before.origin, range.origin);
            self.overlaps.push(Overlap(a.min(b), a.max(b)));
            let whole = *before;
            match neighbour(range.first, false) {
                Some(end) if end >= whole.first => before.last = end,
                _ => {
                    self.kept.pop();
                }
            }
            if let Some(first) = neighbour(range.last, true).filter(|f| *f <= whole.last) {
                self.behind.push(Range { first, ..whole });
            }
        }
        self.keep(range);
    }

    /// What is left of a wider range goes on where nothing narrower stands.
    fn resume(&mut self, mut rest: Range) {
        if let Some(before) = self.kept.last()
            && before.last >= rest.first
        {
            match neighbour(before.last, true).filter(|first| *first <= rest.last) {
                Some(first) => rest.first = first,
                None => return,
            }
        }
        self.keep(rest);
    }

    fn keep(&mut self, range: Range) {
        match self.kept.last_mut() {
            Some(before) if joins(before, &range) => before.last = range.last,
            _ => self.kept.push(range),
        }
    }

    fn finish(mut self) -> (Vec<Range>, Vec<Overlap>) {
        while let Some(rest) = self.behind.pop() {
            self.resume(rest);
        }
        (self.kept, self.overlaps)
    }
}

/// The address after or before one, in its family.
fn neighbour(address: IpAddr, after: bool) -> Option<IpAddr> {
    match address {
        IpAddr::V4(a) if after => a.to_bits().checked_add(1).map(Ipv4Addr::from_bits),
        IpAddr::V4(a) => a.to_bits().checked_sub(1).map(Ipv4Addr::from_bits),
        IpAddr::V6(a) => {
            let bits = a.to_bits();
            let bits = if after {
                bits.checked_add(1)
            } else {
                bits.checked_sub(1)
            };
            return bits.map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits)));
        }
    }
    .map(IpAddr::V4)
}

fn joins(before: &Range, after: &Range) -> bool {
    let same = before.autonomous_system == after.autonomous_system && before.text == after.text;
    same && neighbour(before.last, true) == Some(after.first)
}

fn bytes(ranges: &[Range], texts: &[u8], notes: &str) -> Vec<u8> {
    let v4 = ranges.iter().filter(|range| range.first.is_ipv4()).count();
    let mut out = MAGIC.to_vec();
    for number in [v4, ranges.len() - v4, texts.len(), notes.len()] {
        out.extend((number as u32).to_be_bytes());
    }
    for range in ranges {
        for address in [range.first, range.last] {
            match address {
                IpAddr::V4(a) => out.extend(a.octets()),
                IpAddr::V6(a) => out.extend(a.octets()),
            }
        }
        out.extend(range.autonomous_system.to_be_bytes());
        out.extend(range.text.to_be_bytes());
    }
    out.extend(texts);
    out.extend(notes.as_bytes());
    out
}

/// Without what would move a terminal's cursor, and no longer than a table bears.
fn printable(text: &str) -> String {
    let clean = text.chars().filter(|c| !c.is_control());
    clean.take(TEXT_MOST).collect::<String>().trim().to_owned()
}

/// A table as it was written.
#[derive(Debug)]
pub struct Table {
    bytes: Vec<u8>,
    v4: usize,
    v6: usize,
    texts: usize,
}

impl Table {
    /// Checks all that a search relies on.
    pub fn new(bytes: Vec<u8>) -> Result<Table, String> {
        let damaged = || "it is damaged".to_owned();
        if bytes.len() < HEAD || &bytes[..8] != MAGIC {
            return Err("it is no table of this program".to_owned());
        }
        let number = |at: usize| number(&bytes, at).map(|n| n as usize).ok_or_else(damaged);
        let (v4, v6, texts, notes) = (number(8)?, number(12)?, number(16)?, number(20)?);
        if v4 + v6 > RANGES_MOST || HEAD + v4 * V4 + v6 * V6 + texts + notes != bytes.len() {
            return Err(damaged());
        }
        let table = Table {
            bytes,
            v4,
            v6,
            texts,
        };
        let sorted_v4 = table.v4_ranges().is_sorted_by(|a, b| a[4..8] < b[..4]);
        let sorted_v6 = table.v6_ranges().is_sorted_by(|a, b| a[16..32] < b[..16]);
        let readable = std::str::from_utf8(table.notes_bytes()).is_ok();
        (sorted_v4 && sorted_v6 && readable)
            .then_some(table)
            .ok_or_else(damaged)
    }

    pub fn ranges(&self) -> usize {
        self.v4 + self.v6
    }

    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// As it is kept.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn notes(&self) -> &str {
        std::str::from_utf8(self.notes_bytes()).unwrap_or_default()
    }

    /// What the table says of `address`; an IPv4 address in IPv6 clothes is looked up as such.
    pub fn find(&self, address: IpAddr) -> Option<Says> {
        match address.to_canonical() {
            IpAddr::V4(address) => self.find_v4(address),
            IpAddr::V6(address) => self.find_v6(address),
        }
    }

    fn find_v4(&self, address: Ipv4Addr) -> Option<Says> {
        let (ranges, key) = (self.v4_ranges(), address.octets());
        let after = ranges.partition_point(|range| range[..4] <= key[..]);
        let range = ranges.get(after.checked_sub(1)?)?;
        (range[4..8] >= key[..]).then(|| self.says(&range[8..]))?
    }

    fn find_v6(&self, address: Ipv6Addr) -> Option<Says> {
        let (ranges, key) = (self.v6_ranges(), address.octets());
        let after = ranges.partition_point(|range| range[..16] <= key[..]);
        let range = ranges.get(after.checked_sub(1)?)?;
        (range[16..32] >= key[..]).then(|| self.says(&range[32..]))?
    }

    fn v4_ranges(&self) -> &[[u8; V4]] {
        self.bytes[HEAD..HEAD + self.v4 * V4].as_chunks().0
    }

    fn v6_ranges(&self) -> &[[u8; V6]] {
        let from = HEAD + self.v4 * V4;
        self.bytes[from..from + self.v6 * V6].as_chunks().0
    }

    fn texts_from(&self) -> usize {
        HEAD + self.v4 * V4 + self.v6 * V6
    }

    fn notes_bytes(&self) -> &[u8] {
        &self.bytes[self.texts_from() + self.texts..]
    }

    /// AS and text behind the addresses of a range.
    fn says(&self, tail: &[u8]) -> Option<Says> {
        let autonomous_system = number(tail, 0).filter(|number| *number != 0);
        let mut says = Says {
            autonomous_system,
            ..Says::default()
        };
        let at = number(tail, 4)?;
        if at != NO_TEXT {
            let (organisation, place) = self.text(at as usize)?.split_once('\t')?;
            let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            (says.organisation, says.place) = (known(organisation), known(place));
        }
        Some(says)
    }

    fn text(&self, at: usize) -> Option<&str> {
        let from = self.texts_from();
        let texts = self.bytes.get(from..from + self.texts)?;
        let length = u16::from_be_bytes(texts.get(at..at + 2)?.try_into().ok()?);
        let text = texts.get(at + 2..at + 2 + usize::from(length))?;
        std::str::from_utf8(text).ok()
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn says(number: u32, organisation: &str) -> Says {
        Says {
            autonomous_system: Some(number),
            organisation: Some(organisation.to_owned()),
            place: None,
        }
    }

    fn table(ranges: &[(&str, &str, Says)]) -> (Table, Vec<Overlap>) {
        let mut builder = Builder::default();
        for (place, (first, last, says)) in ranges.iter().enumerate() {
            let range = (address(first), address(last));
            builder.push(range, says, place + 1).expect("a range");
        }
        let (bytes, overlaps) = builder.finish("made up");
        (Table::new(bytes).expect("a table"), overlaps)
    }

    #[test]
    fn an_address_is_found_in_its_range_and_only_there() {
        let (table, overlaps) = table(&[
            ("198.51.100.0", "198.51.100.255", says(64501, "Two")),
            ("192.0.2.0", "192.0.2.127", says(64500, "One")),
            ("2001:db8::", "2001:db8:0:ffff::", says(64502, "Six")),
        ]);
        assert!(overlaps.is_empty());
        let number = |text: &str| table.find(address(text))?.autonomous_system;
        assert_eq!(number("192.0.2.0"), Some(64500));
        assert_eq!(number("192.0.2.127"), Some(64500));
        assert_eq!(number("192.0.2.128"), None);
        assert_eq!(number("192.0.1.255"), None);
        assert_eq!(number("198.51.100.9"), Some(64501));
        assert_eq!(number("255.255.255.255"), None);
        assert_eq!(number("::ffff:192.0.2.5"), Some(64500));
        assert_eq!(number("2001:db8::1"), Some(64502));
        assert_eq!(number("2001:db9::1"), None);
        assert_eq!(table.find(address("192.0.2.1")), Some(says(64500, "One")));
        assert_eq!(table.notes(), "made up");
    }

    #[test]
    fn neighbours_that_say_the_same_become_one() {
        let (table, _) = table(&[
            ("192.0.2.0", "192.0.2.127", says(64500, "One")),
            ("192.0.2.128", "192.0.2.255", says(64500, "One")),
            ("192.0.3.0", "192.0.3.255", says(64501, "Two")),
        ]);
        assert_eq!(table.ranges(), 2);
        assert!(table.find(address("192.0.2.200")).is_some());
    }

    #[test]
    fn where_ranges_overlap_the_later_one_holds_and_both_are_named() {
        let (table, overlaps) = table(&[
            ("10.0.0.0", "10.255.255.255", says(1, "wide")),
            ("10.5.0.0", "10.5.255.255", says(2, "narrow")),
            ("10.5.7.0", "10.5.7.255", says(3, "narrower")),
            ("10.250.0.0", "11.0.0.255", says(4, "across the end")),
        ]);
        assert_eq!(overlaps, [Overlap(1, 2), Overlap(2, 3), Overlap(1, 4)]);
        for (text, number) in [
            ("10.0.0.1", Some(1)),
            ("10.5.0.0", Some(2)),
            ("10.5.7.9", Some(3)),
            ("10.5.8.0", Some(2)),
            ("10.6.0.0", Some(1)),
            ("10.250.0.0", Some(4)),
            ("11.0.0.255", Some(4)),
            ("11.0.1.0", None),
        ] {
            let found = table.find(address(text));
            assert_eq!(found.and_then(|s| s.autonomous_system), number, "{text}");
        }
    }

    #[test]
    fn a_range_turned_round_or_of_two_families_is_refused() {
        let mut builder = Builder::default();
        let mut push = |first: &str, last: &str| {
            builder.push((address(first), address(last)), &says(1, "x"), 1)
        };
        assert!(push("192.0.2.9", "192.0.2.1").is_err());
        assert!(push("192.0.2.9", "2001:db8::").is_err());
    }

    #[test]
    fn bytes_that_were_cut_or_changed_are_no_table() {
        let ranges = [
            ("192.0.2.0", "192.0.2.127", says(64500, "One")),
            ("198.51.100.0", "198.51.100.255", says(64501, "Two")),
        ];
        let good = table(&ranges).0.bytes;
        for cut in 0..good.len() {
            assert!(Table::new(good[..cut].to_vec()).is_err(), "cut at {cut}");
        }
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0xff;
            // Whatever a changed table says, it says without a panic.
            if let Ok(table) = Table::new(bad) {
                let _ = table.find(address("192.0.2.1"));
                let _ = table.find(address("198.51.100.7"));
            }
        }
    }

    #[test]
    fn texts_cannot_move_a_cursor() {
        let evil = Says {
            organisation: Some("\u{1b}[2Jgone\n".to_owned()),
            ..says(64500, "")
        };
        let (table, _) = table(&[("192.0.2.0", "192.0.2.1", evil)]);
        let said = table.find(address("192.0.2.0")).expect("found");
        assert_eq!(said.organisation.as_deref(), Some("[2Jgone"));
    }
}
