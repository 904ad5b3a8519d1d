//! Finds airport codes in the names of routers.
//!
//! Operators put airport codes into names: `ae-1.lax02.example.net`, `sl-bb25-chi-14`. Half of all
//! three-letter words are such codes, so a code counts only if it is a separate part of a label
//! before the domain, is not a networking term, and light could have reached the city and returned.
//! It remains a guess and is reported as one.

/// Three-letter words in router names that mean something else.
const NETWORK_TERMS: &[&str] = &[
    "acc", "agg", "and", "asr", "atm", "bar", "bbr", "bgp", "bor", "br", "bras", "bvi", "car",
    "cbr", "ccr", "clr", "com", "cor", "cpe", "crs", "csr", "cust", "dcr", "dmz", "dns", "dsl",
    "edg", "edu", "eth", "ext", "fas", "fas", "for", "gbe", "gig", "gre", "gsr", "gtw", "gwy",
    "hos", "hsa", "hub", "int", "ios", "ipv", "irb", "isp", "lab", "lag", "lan", "lns", "loo",
    "man", "mpe", "mpr", "mse", "mtu", "mxr", "nat", "net", "new", "nms", "noc", "node", "oob",
    "old", "org", "pat", "pdr", "peer", "per", "pni", "pod", "pop", "pos", "ppp", "prd", "ptr",
    "pub", "qfx", "ras", "rbr", "ref", "rnc", "rou", "rtr", "sbc", "ser", "sfp", "sip", "srv",
    "srx", "sub", "sw", "swi", "tcp", "ten", "tge", "the", "top", "trk", "tun", "udp", "uni",
    "unk", "var", "vip", "vlan", "voi", "vpn", "vrf", "wan", "web", "xcr", "xge",
];
/// The maximum length of a DNS name.
const MAX_NAME_LENGTH: usize = 255;

/// Returns the codes in the order of the name, in lower case.
pub fn extract_airport_codes(name: &str) -> Vec<String> {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    if name.len() > MAX_NAME_LENGTH {
        return Vec::new();
    }
    let labels: Vec<&str> = name.split('.').collect();
    // The last two labels are the operator's domain.
    let own = &labels[..labels.len().saturating_sub(2)];
    let parts = own.iter().flat_map(|label| label.split(['-', '_']));
    let codes = parts.filter_map(parse_airport_code);
    codes.map(str::to_owned).collect()
}

/// Parses `lax` or `lax02`.
fn parse_airport_code(part: &str) -> Option<&str> {
    let letters = part.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_code = letters.len() == 3 && letters.bytes().all(|b| b.is_ascii_lowercase());
    (is_code && !NETWORK_TERMS.contains(&letters)).then_some(letters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn codes_stand_alone_before_the_domain() {
        assert_eq!(extract_airport_codes("ae-1.r02.lax02.example.net"), ["lax"]);
        assert_eq!(
            extract_airport_codes("sl-bb25-chi-14-0.backbone.example.net"),
            ["chi"]
        );
        assert_eq!(extract_airport_codes("SJC-core-1.example.net."), ["sjc"]);
        assert!(extract_airport_codes("tengigabitethernet-3-1.example.net").is_empty());
        assert!(extract_airport_codes("pos-1.gig0.eth2.example.net").is_empty());
        assert!(
            extract_airport_codes("lax.net").is_empty()
                && extract_airport_codes("ams").is_empty()
                && extract_airport_codes("").is_empty()
        );
    }

    proptest! {
        #[test]
        fn no_name_can_break_it(name in any::<String>()) {
            prop_assert!(extract_airport_codes(&name).iter().all(|code| code.len() == 3));
        }
    }
}
