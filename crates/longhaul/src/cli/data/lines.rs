//! Ranges of addresses as lines of text: CSV and TSV as the makers of such data give them away.
//!
//! | separator, columns | meaning |
//! | --- | --- |
//! | comma, 3 | first, last, country |
//! | comma, 4 | first, last, AS number, organisation |
//! | comma, 8 | first, last, continent, country, region, city, latitude, longitude |
//! | comma, 10 | first, last, country, region, region, city, post code, latitude, longitude, zone |
//! | tab, 5 | first, last, AS number, country, organisation |
//!
//! Addresses are written as addresses or as whole numbers. Fields may be in double quotes.

use super::table::{Builder, Says};
use std::io::{BufRead, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// No line of such a file is near as long.
const LINE_MOST: u64 = 8192;

/// Where a file cannot be understood.
#[derive(Debug, PartialEq, Eq)]
pub struct Trouble {
    pub line: usize,
    pub why: String,
}

/// Reads every line into `builder`.
pub fn read(mut from: impl BufRead, builder: &mut Builder) -> Result<(), Trouble> {
    let mut buffer = Vec::new();
    for line in 1.. {
        let trouble = |why: String| Trouble { line, why };
        buffer.clear();
        let length = from
            .by_ref()
            .take(LINE_MOST)
            .read_until(b'\n', &mut buffer)
            .map_err(|e| trouble(format!("it cannot be read: {e}")))?;
        if length == 0 {
            break;
        }
        if length as u64 == LINE_MOST {
            return Err(trouble(format!("it is longer than {LINE_MOST} bytes")));
        }
        let text = std::str::from_utf8(&buffer)
            .map_err(|_| trouble("it is not text in UTF-8".to_owned()))?;
        take(text.trim_end_matches(['\n', '\r']), line, builder).map_err(trouble)?;
    }
    Ok(())
}

fn take(text: &str, line: usize, builder: &mut Builder) -> Result<(), String> {
    let text = if line == 1 {
        text.trim_start_matches('\u{feff}')
    } else {
        text
    };
    if text.trim().is_empty() || text.starts_with('#') {
        return Ok(());
    }
    let fields = fields(text)?;
    if line == 1 && !fields[0].contains(|c: char| c.is_ascii_digit()) {
        return Ok(());
    }
    let says = says(&fields, text.contains('\t'))?;
    let range = (address(&fields[0])?, address(&fields[1])?);
    builder.push(range, &says, line)
}

/// The fields of one line, by tabs where it has any, else by commas.
fn fields(text: &str) -> Result<Vec<String>, String> {
    if text.contains('\t') {
        return Ok(text.split('\t').map(|f| f.trim().to_owned()).collect());
    }
    let mut found = Vec::new();
    let mut field = String::new();
    let mut quoted = false;
    let mut letters = text.chars().peekable();
    while let Some(c) = letters.next() {
        match c {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => found.push(std::mem::take(&mut field).trim().to_owned()),
            c => field.push(c),
        }
    }
    if quoted {
        return Err("a quotation mark is not closed".to_owned());
    }
    found.push(field.trim().to_owned());
    Ok(found)
}

/// What the columns behind the two addresses say.
fn says(fields: &[String], tabs: bool) -> Result<Says, String> {
    let known = |at: usize| {
        let text = fields[at].as_str();
        (!text.is_empty() && text != "None").then(|| text.to_owned())
    };
    let place = |city: usize, country: usize| match (known(city), known(country)) {
        (Some(city), Some(country)) => Some(format!("{city}, {country}")),
        (city, country) => city.or(country),
    };
    let network = |number: usize, organisation: usize, country: Option<usize>| {
        let number = autonomous_system(&fields[number])?;
        Ok(number.map_or_else(Says::default, |number| Says {
            autonomous_system: Some(number),
            organisation: known(organisation),
            place: country.and_then(known),
        }))
    };
    let of_place = |place| Says {
        place,
        ..Says::default()
    };
    match (tabs, fields.len()) {
        (false, 3) => Ok(of_place(known(2))),
        (false, 4) => network(2, 3, None),
        (false, 8) => Ok(of_place(place(5, 3))),
        (false, 10) => Ok(of_place(place(5, 2))),
        (true, 5) => network(2, 4, Some(3)),
        (tabs, columns) => Err(format!(
            "it has {columns} columns; expected are first address, last address, AS number, \
             organisation{}",
            if tabs {
                " (5 with tabs)"
            } else {
                " (or 3, 8, 10)"
            }
        )),
    }
}

/// `13335` and `AS13335`; 0 stands for addresses that nobody announces.
fn autonomous_system(text: &str) -> Result<Option<u32>, String> {
    let digits = text.trim_start_matches(['A', 'S', 'a', 's']);
    if text.is_empty() {
        return Ok(None);
    }
    let number: u32 = digits
        .parse()
        .map_err(|_| format!("`{}` is not an AS number", shown(text)))?;
    Ok((number != 0).then_some(number))
}

fn address(text: &str) -> Result<IpAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    match text.parse::<u128>() {
        Ok(number) => Ok(u32::try_from(number).map_or_else(
            |_| IpAddr::V6(Ipv6Addr::from_bits(number)),
            |number| IpAddr::V4(Ipv4Addr::from_bits(number)),
        )),
        Err(_) => Err(format!("`{}` is not an address", shown(text))),
    }
}

/// Of a text from outside: what can be shown in an error.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::super::table::Table;
    use super::*;

    fn table(text: &str) -> Result<Table, Trouble> {
        let mut builder = Builder::default();
        read(text.as_bytes(), &mut builder)?;
        let (bytes, _) = builder.finish("");
        Ok(Table::new(bytes).expect("a table"))
    }

    fn found(text: &str, address: &str) -> Option<Says> {
        table(text)
            .expect("a good file")
            .find(address.parse().expect("an address"))
    }

    #[test]
    fn the_forms_of_several_makers_are_understood() {
        let network = |number, organisation: &str, place: Option<&str>| {
            Some(Says {
                autonomous_system: Some(number),
                organisation: Some(organisation.to_owned()),
                place: place.map(str::to_owned),
            })
        };
        let cases = [
            (
                "192.0.2.0,192.0.2.255,64500,\"Example, Inc. \"\"X\"\"\"\n",
                network(64500, "Example, Inc. \"X\"", None),
            ),
            (
                "3221225984,3221226239,64500,Net\n",
                network(64500, "Net", None),
            ),
            (
                "192.0.2.0\t192.0.2.255\t64500\tSE\tNORDIC\n",
                network(64500, "NORDIC", Some("SE")),
            ),
            (
                "ip_start,ip_end,asn,name\n192.0.2.0,192.0.2.255,AS64500,Net\r\n",
                network(64500, "Net", None),
            ),
            ("192.0.2.0\t192.0.2.255\t0\tNone\tNot routed\n", None),
        ];
        for (text, says) in cases {
            assert_eq!(found(text, "192.0.2.77"), says, "{text}");
        }
    }

    #[test]
    fn places_are_city_and_country() {
        let place = |text: &str| found(text, "192.0.2.77").and_then(|says| says.place);
        assert_eq!(place("192.0.2.0,192.0.2.255,SE\n").as_deref(), Some("SE"));
        let line = "192.0.2.0,192.0.2.255,EU,SE,Norrbotten,Lulea,65.6,22.1\n";
        assert_eq!(place(line).as_deref(), Some("Lulea, SE"));
        let line = "192.0.2.0,192.0.2.255,SE,Norrbotten,,Lulea,,65.6,22.1,Europe/Stockholm\n";
        assert_eq!(place(line).as_deref(), Some("Lulea, SE"));
    }

    #[test]
    fn addresses_of_six_may_be_numbers_too() {
        let line = "42540766411282592856903984951653826560,\
                    42540766411282592875350729025363378175,64500,Six\n";
        assert_eq!(
            found(line, "2001:db8::5").and_then(|says| says.autonomous_system),
            Some(64500)
        );
    }

    #[test]
    fn an_error_names_its_line() {
        let good = "192.0.2.0,192.0.2.255,64500,Net\n";
        for (bad, why) in [
            ("192.0.2.0,nowhere,64500,Net", "`nowhere` is not an address"),
            ("192.0.3.0,192.0.3.9,many,Net", "`many` is not an AS number"),
            ("192.0.3.9,192.0.3.0,64500,Net", "before its begin"),
            ("192.0.3.0,2001:db8::,64500,Net", "two families"),
            ("192.0.3.0,192.0.3.9", "2 columns"),
            ("192.0.3.0,192.0.3.9,64500,\"Net", "not closed"),
        ] {
            let trouble = table(&format!("{good}{bad}\n")).expect_err(bad);
            assert_eq!(trouble.line, 2, "{bad}");
            assert!(trouble.why.contains(why), "{bad}: {}", trouble.why);
        }
        let long = format!("{good}{}\n", "9".repeat(9000));
        assert_eq!(table(&long).expect_err("too long").line, 2);
    }
}
