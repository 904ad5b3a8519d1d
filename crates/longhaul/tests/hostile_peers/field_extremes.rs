//! Messages of which one field has an extreme value.

use crate::json_pointers::{find_pointers, name_field};
use longhaul_model::splitmix::SplitMix64;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeSet;

/// A change of one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldExtreme {
    /// The field has this JSON.
    Json(&'static str),
    /// A text of many letters.
    LongText,
    /// A list of many copies of what was there.
    LongList,
    /// Lists within lists.
    DeepLists,
    Removed,
    Twice,
    /// As often as the message has room.
    ManyTimes,
    /// The message is extreme as it is.
    Kept,
}

/// All extremes: of each type, of other types, and of none.
pub const EXTREMES: &[FieldExtreme] = {
    use FieldExtreme::{DeepLists, Json, LongList, LongText, ManyTimes, Removed, Twice};
    &[
        Json("0"),
        Json("1"),
        Json("-1"),
        Json("127"),
        Json("255"),
        Json("65535"),
        Json("65536"),
        Json("4294967295"),
        Json("4294967296"),
        Json("9223372036854775807"),
        Json("-9223372036854775808"),
        Json("18446744073709551615"),
        Json("18446744073709551616"),
        Json("0.5"),
        Json("-0.0"),
        Json("1e308"),
        Json("1e999"),
        Json("NaN"),
        Json("null"),
        Json("true"),
        Json("false"),
        Json("\"\""),
        Json("\"\\u001b[2J\\u202e\\u0000\""),
        Json("\"\\ud800\""),
        Json("\"../../etc/passwd\""),
        Json("[]"),
        Json("{}"),
        LongText,
        LongList,
        DeepLists,
        Removed,
        Twice,
        ManyTimes,
    ]
};

/// The message to change, and the place of the field in it: nodes are numbered from the root.
#[derive(Debug, Clone)]
pub struct FieldAttack {
    pub message: Value,
    node: usize,
    extreme: FieldExtreme,
    /// The value has the type of the field.
    fits: bool,
}

/// All attacks on the messages of a wire.
#[derive(Debug)]
pub struct FieldAttacks {
    all: Vec<FieldAttack>,
    /// Those that a decoder may accept.
    fitting: Vec<usize>,
}

impl FieldAttacks {
    /// Lists the attacks on messages of type `T`.
    pub fn new<T: DeserializeOwned>(messages: &[Value]) -> FieldAttacks {
        let all = list_attacks::<T>(messages);
        let fitting = (0..all.len()).filter(|place| all[*place].fits).collect();
        FieldAttacks { all, fitting }
    }

    /// Returns each attack once, and then those that fit.
    pub fn choose(&self, number: usize, random: &mut SplitMix64) -> &FieldAttack {
        let fitting = || &self.all[self.fitting[random.below(self.fitting.len())]];
        self.all.get(number).unwrap_or_else(fitting)
    }
}

/// Sets all numbers at or below this place to the first of these that their fields take.
fn set_numbers<T: DeserializeOwned>(message: &mut Value, place: &str, numbers: &[u64]) {
    let value = message.pointer(place).expect("a value");
    for below in find_pointers(value, Value::is_number) {
        let place = format!("{place}{below}");
        let before = message.pointer(&place).cloned();
        let numbers = numbers.iter().map(|number| Value::from(*number)).chain(before);
        for number in numbers {
            *message.pointer_mut(&place).expect("a number") = number;
            if T::deserialize(&*message).is_ok() {
                break;
            }
        }
    }
}

fn fits(value: &Value, extreme: FieldExtreme) -> bool {
    match (value, extreme) {
        (_, FieldExtreme::Removed)
        | (Value::String(_), FieldExtreme::LongText)
        | (Value::Array(_), FieldExtreme::LongList | FieldExtreme::Json("[]")) => true,
        (Value::Number(number), FieldExtreme::Json(json)) => {
            json.parse::<i128>().is_ok() || (number.is_f64() && json.parse::<f64>().is_ok())
        }
        (Value::Bool(_), FieldExtreme::Json(json)) => json.parse::<bool>().is_ok(),
        (Value::String(_), FieldExtreme::Json(json)) => json.starts_with('"'),
        _ => false,
    }
}

/// Returns one attack for each field of each message and each extreme, and some that set all numbers
/// of an object. Fields with the same names on their way count once.
fn list_attacks<T: DeserializeOwned>(messages: &[Value]) -> Vec<FieldAttack> {
    const UNSIGNED: [u64; 4] = [u64::MAX, u32::MAX as u64, u16::MAX as u64, u8::MAX as u64];
    const SIGNED: [u64; 4] = [i64::MAX as u64, i32::MAX as u64, i16::MAX as u64, i8::MAX as u64];
    let (mut known, mut attacks) = (BTreeSet::new(), Vec::new());
    for message in messages {
        let places = find_pointers(message, |_| true);
        for (node, place) in places.iter().enumerate() {
            let value = message.pointer(place).expect("a value");
            let name = name_field(place);
            if !known.insert(name.clone()) {
                continue;
            }
            attacks.extend(EXTREMES.iter().map(|extreme| {
                let (message, extreme) = (message.clone(), *extreme);
                FieldAttack { message, node, extreme, fits: fits(value, extreme) }
            }));
            // In one object, or of this name in all items.
            let places: Vec<&str> = match value {
                Value::Object(_) | Value::Array(_) => vec![place],
                _ => {
                    places.iter().filter(|it| name_field(it) == name).map(String::as_str).collect()
                }
            };
            attacks.extend([&UNSIGNED[..], &SIGNED[..], &[0]].map(|numbers| {
                let mut message = message.clone();
                for place in &places {
                    set_numbers::<T>(&mut message, place, numbers);
                }
                FieldAttack { message, node, extreme: FieldExtreme::Kept, fits: true }
            }));
        }
    }
    attacks
}

/// Returns the honest messages, then each with one part that only a sample of its kind has, then the
/// samples.
pub fn extend_messages(honest: Vec<Value>, samples: Vec<Value>) -> Vec<Value> {
    let mut extended = Vec::new();
    for message in &honest {
        for sample in &samples {
            add_missing(message, "", message, sample, &mut extended);
        }
    }
    honest.into_iter().chain(extended).chain(samples).collect()
}

fn add_missing(
    root: &Value,
    place: &str,
    honest: &Value,
    sample: &Value,
    extended: &mut Vec<Value>,
) {
    match (honest, sample) {
        (Value::Object(known), Value::Object(all)) => {
            let is_other_variant =
                known.len() == 1 && all.len() == 1 && known.keys().ne(all.keys());
            for (key, part) in all.iter().filter(|_| !is_other_variant) {
                if let Some(known) = known.get(key) {
                    add_missing(root, &format!("{place}/{key}"), known, part, extended);
                } else {
                    let mut message = root.clone();
                    let object = message.pointer_mut(place).and_then(Value::as_object_mut);
                    object.expect("an object").insert(key.clone(), part.clone());
                    extended.push(message);
                }
            }
        }
        (Value::Array(known), Value::Array(all)) => {
            if let (Some(known), Some(all)) = (known.first(), all.first()) {
                add_missing(root, &format!("{place}/0"), known, all, extended);
            }
        }
        _ => {}
    }
}

impl FieldAttack {
    /// Returns whether the length of the message is the attack.
    pub fn is_long(&self) -> bool {
        use FieldExtreme::{DeepLists, LongList, LongText, ManyTimes};
        matches!(self.extreme, LongText | LongList | DeepLists | ManyTimes)
    }

    /// Writes the changed message; long values have about `room` bytes. Sometimes a field near it is
    /// changed as well, and contradicts it.
    pub fn write(&self, room: usize, random: &mut SplitMix64) -> String {
        let mut writer = ChangedMessage {
            text: String::new(),
            next: 0,
            changes: vec![(self.node, self.extreme)],
            room,
        };
        if random.below(4) == 0 {
            let other = EXTREMES[random.below(EXTREMES.len())];
            writer.changes.push((self.node + 1 + random.below(4), other));
        }
        writer.write_node(&self.message);
        writer.text
    }
}

struct ChangedMessage {
    text: String,
    /// The number of the next node.
    next: usize,
    changes: Vec<(usize, FieldExtreme)>,
    room: usize,
}

impl ChangedMessage {
    fn change(&self) -> Option<FieldExtreme> {
        let found = self.changes.iter().find(|(node, _)| *node == self.next);
        found.map(|(_, extreme)| *extreme)
    }

    fn write_node(&mut self, value: &Value) {
        use FieldExtreme::{Kept, ManyTimes, Removed, Twice};
        let change = self.change();
        let begin = self.text.len();
        self.next += 1;
        self.write_plain(value);
        let plain = match change {
            None | Some(Removed | Twice | ManyTimes | Kept) => return,
            Some(_) => self.text.split_off(begin),
        };
        match change {
            Some(FieldExtreme::Json(json)) => self.text.push_str(json),
            Some(FieldExtreme::LongText) => {
                self.text.push('"');
                self.text.extend(std::iter::repeat_n('A', self.room));
                self.text.push('"');
            }
            Some(FieldExtreme::LongList) => {
                let inner = match value {
                    Value::Array(items) => items.first().map_or("0".to_owned(), Value::to_string),
                    _ => plain,
                };
                let copies = (self.room / (inner.len() + 1)).max(2);
                self.text.push('[');
                self.text.push_str(&vec![inner; copies].join(","));
                self.text.push(']');
            }
            _ => {
                let depth = self.room / 2;
                self.text.extend(std::iter::repeat_n('[', depth));
                self.text.extend(std::iter::repeat_n(']', depth));
            }
        }
    }

    fn write_plain(&mut self, value: &Value) {
        match value {
            Value::Array(items) => {
                self.text.push('[');
                for item in items {
                    self.write_member(None, item);
                }
                self.end('[', ']');
            }
            Value::Object(members) => {
                self.text.push('{');
                members.iter().for_each(|(key, member)| self.write_member(Some(key), member));
                self.end('{', '}');
            }
            other => self.text.push_str(&other.to_string()),
        }
    }

    /// Writes an item or a member, none, or several of them, each with a comma behind it.
    fn write_member(&mut self, key: Option<&str>, value: &Value) {
        let (change, begin) = (self.change(), self.text.len());
        if let Some(key) = key {
            self.text.push_str(&Value::from(key).to_string());
            self.text.push(':');
        }
        self.write_node(value);
        self.text.push(',');
        let copies = match change {
            Some(FieldExtreme::Removed) => return self.text.truncate(begin),
            Some(FieldExtreme::Twice) => 1,
            Some(FieldExtreme::ManyTimes) => self.room / (self.text.len() - begin),
            _ => 0,
        };
        let member = self.text[begin..].to_owned();
        (0..copies).for_each(|_| self.text.push_str(&member));
    }

    /// Replaces the comma behind the last member.
    fn end(&mut self, open: char, close: char) {
        if !self.text.ends_with(open) {
            self.text.pop();
        }
        self.text.push(close);
    }
}
