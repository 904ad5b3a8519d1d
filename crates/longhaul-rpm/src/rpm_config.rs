//! The configuration that a server publishes.
//!
//! Drafts and programs have two names for each URL. Those with `https` are of earlier drafts; clients
//! in use want them.

use hyper::Uri;
use longhaul_model::foreign_text::ForeignDeserializer;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The path of the configuration (draft, section 7.1).
pub const WELL_KNOWN_PATH: &str = "/.well-known/nq";
/// The maximum length of a configuration.
pub const MAX_CONFIG_BYTES: usize = 1 << 16;
pub const SMALL_PATH: &str = "/nq/small";
pub const LARGE_PATH: &str = "/nq/large";
pub const UPLOAD_PATH: &str = "/nq/upload";
const VERSION: u32 = 1;
const HTTPS_PORT: u16 = 443;

/// The configuration as JSON.
#[derive(Debug, Serialize, Deserialize)]
struct RpmConfigDocument {
    version: u32,
    urls: ConfigUrls,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    test_endpoint: Option<String>,
}

#[expect(clippy::struct_field_names, reason = "the names are those of the draft")]
#[derive(Debug, Serialize, Deserialize)]
struct ConfigUrls {
    small_download_url: Option<String>,
    large_download_url: Option<String>,
    upload_url: Option<String>,
    small_https_download_url: Option<String>,
    large_https_download_url: Option<String>,
    https_upload_url: Option<String>,
}

/// A valid configuration: three `https` URLs of one host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpmConfig {
    pub small: Uri,
    pub large: Uri,
    pub upload: Uri,
    /// The host of the URLs, without brackets.
    pub host: String,
    pub port: u16,
    /// The host to connect to instead.
    pub test_endpoint: Option<String>,
}

impl RpmConfig {
    /// Parses a configuration.
    ///
    /// # Errors
    /// A text says what is wrong: the JSON, the version, or a URL.
    pub fn parse(bytes: &[u8]) -> Result<RpmConfig, String> {
        let invalid = |error: serde_json::Error| format!("its configuration is invalid: {error}");
        let mut source = serde_json::Deserializer::from_slice(bytes);
        let document =
            RpmConfigDocument::deserialize(ForeignDeserializer(&mut source)).map_err(invalid)?;
        source.end().map_err(invalid)?;
        if document.version != VERSION {
            return Err(format!("its configuration has the version {}, not 1", document.version));
        }
        let urls = document.urls;
        let small = parse_url("small", urls.small_https_download_url.or(urls.small_download_url))?;
        let large = parse_url("large", urls.large_https_download_url.or(urls.large_download_url))?;
        let upload = parse_url("upload", urls.https_upload_url.or(urls.upload_url))?;
        let (host, port) = split_authority(&small);
        if [&large, &upload].into_iter().any(|it| split_authority(it) != (host.clone(), port)) {
            return Err("the URLs in its configuration have different hosts".to_owned());
        }
        let test_endpoint = document.test_endpoint.filter(|endpoint| !endpoint.is_empty());
        Ok(RpmConfig { small, large, upload, host, port, test_endpoint })
    }

    /// Returns the configuration of this program's server, for clients that call it `authority`.
    pub fn publish(authority: &str) -> String {
        let url = |path: &str| Some(format!("https://{authority}{path}"));
        let urls = ConfigUrls {
            small_download_url: url(SMALL_PATH),
            large_download_url: url(LARGE_PATH),
            upload_url: url(UPLOAD_PATH),
            small_https_download_url: url(SMALL_PATH),
            large_https_download_url: url(LARGE_PATH),
            https_upload_url: url(UPLOAD_PATH),
        };
        let document = RpmConfigDocument { version: VERSION, urls, test_endpoint: None };
        serde_json::to_string(&document).unwrap_or_default()
    }
}

fn parse_url(name: &str, text: Option<String>) -> Result<Uri, String> {
    let text = text.ok_or_else(|| format!("its configuration has no {name} URL"))?;
    let uri: Uri = text.parse().map_err(|error| format!("its {name} URL is invalid: {error}"))?;
    if uri.scheme_str() != Some("https") {
        return Err(format!("its {name} URL is not one of https"));
    }
    Ok(uri)
}

fn split_authority(uri: &Uri) -> (String, u16) {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_ascii_lowercase();
    (host, uri.port_u16().unwrap_or(HTTPS_PORT))
}

/// Returns whether an address belongs to this host or to a private network. A server elsewhere must
/// not direct the load to one.
pub fn is_internal(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(it) => {
            it.is_loopback() || it.is_private() || it.is_link_local() || it.is_unspecified()
        }
        IpAddr::V6(it) => {
            it.is_loopback()
                || it.is_unique_local()
                || it.is_unicast_link_local()
                || it.is_unspecified()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_configuration_is_parsed_again() {
        let config = RpmConfig::parse(RpmConfig::publish("[::1]:5201").as_bytes()).expect("valid");
        assert_eq!((config.host.as_str(), config.port), ("::1", 5201));
        assert_eq!(config.small, "https://[::1]:5201/nq/small");
        assert_eq!(config.upload.path(), UPLOAD_PATH);
    }

    #[test]
    fn the_names_of_the_draft_are_enough_and_others_are_ignored() {
        let text = r#"{"version":1,"new":[1],"test_endpoint":"edge.example.com","urls":{
            "large_download_url":"https://example.com/api/v1/large",
            "small_download_url":"https://example.com/api/v1/small",
            "upload_url":"https://example.com/api/v1/upload"}}"#;
        let config = RpmConfig::parse(text.as_bytes()).expect("valid");
        assert_eq!((config.host.as_str(), config.port), ("example.com", 443));
        assert_eq!(config.test_endpoint.as_deref(), Some("edge.example.com"));
    }

    #[test]
    fn other_configurations_are_refused_with_the_reason() {
        let with = |version: u32, small: &str, large: &str| {
            format!(
                r#"{{"version":{version},"urls":{{"small_download_url":"{small}",
                "large_download_url":"{large}","upload_url":"https://a/u"}}}}"#
            )
        };
        for (text, reason) in [
            ("no JSON".to_owned(), "invalid"),
            ("{}".to_owned(), "invalid"),
            (with(1, "https://a/s", "https://a/l") + "{}", "invalid"),
            (with(2, "https://a/s", "https://a/l"), "version 2"),
            (with(1, "http://a/s", "https://a/l"), "not one of https"),
            (with(1, "/s", "https://a/l"), "not one of https"),
            (with(1, "https://a/s", "https://b/l"), "different hosts"),
            (with(1, "https://a/s", "https://a:1/l"), "different hosts"),
            (with(1, "https://a b/", "https://a/l"), "invalid"),
            (r#"{"version":1,"urls":{}}"#.to_owned(), "no small URL"),
            (r#"{"version":1,"version":1,"urls":{}}"#.to_owned(), "duplicate"),
        ] {
            let why = RpmConfig::parse(text.as_bytes()).expect_err(&text);
            assert!(why.contains(reason), "{why}");
        }
    }

    #[test]
    fn internal_addresses_are_told_from_public_ones() {
        let internal = |text: &str| is_internal(text.parse().expect("an address"));
        for text in ["127.0.0.1", "10.1.2.3", "::ffff:192.168.1.1", "::1", "fd00::1", "fe80::1"] {
            assert!(internal(text), "{text}");
        }
        assert!(!internal("198.51.100.1") && !internal("2001:db8::1"));
    }
}
