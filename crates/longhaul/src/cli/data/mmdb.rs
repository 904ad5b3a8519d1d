//! Ranges of addresses from a file in MaxMind's format, as several makers give them away.

use super::table::{Builder, Says};
use maxminddb::{MaxMindDbError, Reader, WithinOptions};
use serde_json::Value;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv4Addr};

/// What ends every such file: the begin of its metadata.
const MARK: &[u8] = b"\xab\xcd\xefMaxMind.com";
/// How far from the end the mark may stand.
const MARK_WITHIN: usize = 128 * 1024;

/// Whether the bytes are of this format.
pub fn is_one(bytes: &[u8]) -> bool {
    let tail = &bytes[bytes.len().saturating_sub(MARK_WITHIN)..];
    tail.windows(MARK.len()).any(|window| window == MARK)
}

/// Reads every network into `builder`.
pub fn read(bytes: &[u8], builder: &mut Builder) -> Result<(), String> {
    let damaged = |e: MaxMindDbError| format!("it is damaged: {e}");
    let reader = Reader::from_source(bytes).map_err(damaged)?;
    let networks = reader.networks(WithinOptions::default()).map_err(damaged)?;
    // Many networks share one record.
    let mut records: HashMap<usize, Says> = HashMap::new();
    for (place, found) in networks.enumerate() {
        let found = found.map_err(damaged)?;
        let Some(offset) = found.offset() else {
            continue;
        };
        let record = match records.entry(offset) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let record: Option<Value> = found.decode().map_err(damaged)?;
                new.insert(record.as_ref().map(says).unwrap_or_default())
            }
        };
        let network = found.network().map_err(damaged)?;
        let range = canonical(network.network(), network.broadcast());
        builder.push(range, record, place + 1)?;
    }
    Ok(())
}

/// IPv4 networks may stand below ::/96.
fn canonical(first: IpAddr, last: IpAddr) -> (IpAddr, IpAddr) {
    match (first, last) {
        (IpAddr::V6(a), IpAddr::V6(b)) if a.to_bits() >> 32 == 0 && b.to_bits() >> 32 == 0 => {
            let low = |bits: u128| IpAddr::V4(Ipv4Addr::from_bits(bits as u32));
            (low(a.to_bits()), low(b.to_bits()))
        }
        other => other,
    }
}

/// A record, in the words of any of its makers.
fn says(record: &Value) -> Says {
    let text = |paths: &[&str]| {
        let found = paths
            .iter()
            .filter_map(|path| record.pointer(path)?.as_str());
        found.map(str::to_owned).find(|text| !text.is_empty())
    };
    let city = text(&["/city/names/en", "/city"]);
    let country = text(&[
        "/country/iso_code",
        "/country_code",
        "/registered_country/iso_code",
        "/country",
    ]);
    let place = match (city, country) {
        (Some(city), Some(country)) => Some(format!("{city}, {country}")),
        (city, country) => city.or(country),
    };
    Says {
        autonomous_system: number(record).filter(|number| *number != 0),
        organisation: text(&["/autonomous_system_organization", "/as_name", "/name"]),
        place,
    }
}

fn number(record: &Value) -> Option<u32> {
    if let Some(number) = record.get("autonomous_system_number") {
        return number.as_u64().and_then(|n| u32::try_from(n).ok());
    }
    match record.get("asn")? {
        Value::String(text) => text.trim_start_matches("AS").parse().ok(),
        number => number.as_u64().and_then(|n| u32::try_from(n).ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn records_of_several_makers_say_the_same() {
        let want = |place: Option<&str>| Says {
            autonomous_system: Some(64500),
            organisation: Some("Net".to_owned()),
            place: place.map(str::to_owned),
        };
        let record = json!({"autonomous_system_number": 64500,
            "autonomous_system_organization": "Net"});
        assert_eq!(says(&record), want(None));
        let record = json!({"asn": "AS64500", "as_name": "Net", "country_code": "SE",
            "country": "Sweden"});
        assert_eq!(says(&record), want(Some("SE")));
        let record = json!({"city": {"names": {"en": "Lulea", "sv": "Luleå"}},
            "country": {"iso_code": "SE"}});
        assert_eq!(says(&record).place.as_deref(), Some("Lulea, SE"));
        assert!(says(&json!({"subdivisions": []})).is_empty());
    }

    #[test]
    fn other_bytes_are_not_taken_for_it() {
        assert!(!is_one(b"192.0.2.0,192.0.2.255,64500,Net\n"));
        let mut bytes = vec![0; 64];
        bytes.extend(MARK);
        assert!(is_one(&bytes));
        assert!(read(&bytes, &mut Builder::default()).is_err());
    }
}
