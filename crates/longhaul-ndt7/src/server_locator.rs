//! Answers of M-Lab's Locate API, which assigns servers and gives each client an access token.
//!
//! Source: `api/v2` of m-lab/locate (version 2.0.0): `NearestResult`, whose errors follow RFC 7807.

use crate::ndt7_connection::MAX_QUERY_BYTES;
use crate::ndt7_messages::SubtestKind;
use longhaul_model::foreign_text::ForeignDeserializer;
use longhaul_probe::host_endpoint::HostEndpoint;
use serde::Deserialize;
use std::collections::BTreeMap;
use tungstenite::http::Uri;

/// The URL of M-Lab's Locate API for ndt7.
pub const MLAB_LOCATOR: &str = "https://locate.measurementlab.net/v2/nearest/ndt/ndt7";
/// The maximum number of servers in an answer; M-Lab names four.
const MAX_SERVERS: usize = 16;

/// A server that was assigned to this client.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LocatedServer {
    /// The name of the machine.
    pub machine: String,
    #[serde(default)]
    location: Option<ServerLocation>,
    /// URLs with access tokens, by `wss:///ndt/v7/download` and its like.
    urls: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct ServerLocation {
    city: String,
    country: String,
}

/// The parts of the URL of one subtest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubtestUrl {
    pub endpoint: HostEndpoint,
    /// The query without `?`, with the access token.
    pub query: String,
}

impl LocatedServer {
    /// Returns the servers of an answer, the nearest first.
    ///
    /// # Errors
    /// A text says why there are none: the answer is invalid, or the service refuses.
    pub fn parse_answer(text: &str) -> Result<Vec<LocatedServer>, String> {
        #[derive(Deserialize)]
        struct NearestResult {
            #[serde(default)]
            error: Option<LocateError>,
            #[serde(default)]
            results: Vec<LocatedServer>,
        }
        #[derive(Deserialize)]
        struct LocateError {
            title: String,
        }
        let mut source = serde_json::Deserializer::from_str(text);
        let answer = NearestResult::deserialize(ForeignDeserializer(&mut source));
        let NearestResult { error, mut results } =
            answer.map_err(|error| format!("its answer is invalid: {error}"))?;
        match error {
            Some(LocateError { title }) => Err(title),
            None if results.is_empty() => Err("no server is free".to_owned()),
            None => {
                results.truncate(MAX_SERVERS);
                Ok(results)
            }
        }
    }

    /// Returns the name of the machine, with its place if that is known.
    pub fn describe(&self) -> String {
        match &self.location {
            Some(ServerLocation { city, country }) => {
                format!("{} ({city}, {country})", self.machine)
            }
            None => self.machine.clone(),
        }
    }

    /// Returns the URL of a subtest, with TLS or without.
    ///
    /// # Errors
    /// The server has none, or it is invalid.
    pub fn find_url(&self, kind: SubtestKind, uses_tls: bool) -> Result<SubtestUrl, String> {
        let (scheme, default_port) = if uses_tls { ("wss", 443) } else { ("ws", 80) };
        let path = kind.url_path();
        let url = self.urls.get(&format!("{scheme}://{path}"));
        let url = url.ok_or_else(|| format!("{} has no URL {scheme}://{path}", self.machine))?;
        let invalid = || format!("{} has an invalid URL for the {kind}", self.machine);
        let url: Uri = url.parse().map_err(|_| invalid())?;
        let query = url.query().unwrap_or_default().to_owned();
        if url.scheme_str() != Some(scheme) || url.path() != path || query.len() > MAX_QUERY_BYTES {
            return Err(invalid());
        }
        let host = url.host().ok_or_else(invalid)?.parse::<HostEndpoint>();
        let host = host.map_err(|_| invalid())?;
        let port = url.port_u16().unwrap_or(default_port);
        Ok(SubtestUrl { endpoint: HostEndpoint { port: Some(port), ..host }, query })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = r#"{"results": [{
        "machine": "mlab1-lga05.mlab-oti.measurement-lab.org",
        "location": {"city": "New York", "country": "US"},
        "urls": {
            "ws:///ndt/v7/download": "ws://ndt-mlab1-lga05.example.org/ndt/v7/download?access_token=a.b",
            "wss:///ndt/v7/download": "wss://ndt-mlab1-lga05.example.org:4443/ndt/v7/download?access_token=a.b",
            "wss:///ndt/v7/upload": "wss://ndt-mlab1-lga05.example.org/other?access_token=a.b"
        }}],
        "next_request": {"nbf": "2026-01-01T00:00:00Z", "exp": "2026-01-01T01:00:00Z", "url": "https://x"}}"#;

    #[test]
    fn a_server_has_a_url_with_its_token_for_each_subtest_and_scheme() {
        let servers = LocatedServer::parse_answer(ANSWER).expect("servers");
        let [server] = &servers[..] else { panic!("{servers:?}") };
        assert_eq!(server.describe(), "mlab1-lga05.mlab-oti.measurement-lab.org (New York, US)");
        let find = |kind, uses_tls| server.find_url(kind, uses_tls).map(|it| it.endpoint.port);
        assert_eq!(find(SubtestKind::Download, true), Ok(Some(4443)));
        assert_eq!(find(SubtestKind::Download, false), Ok(Some(80)));
        let url = server.find_url(SubtestKind::Download, true).expect("a URL");
        assert_eq!(url.endpoint.host, "ndt-mlab1-lga05.example.org");
        assert_eq!(url.query, "access_token=a.b");
        assert!(find(SubtestKind::Upload, true).expect_err("another path").contains("invalid"));
        assert!(find(SubtestKind::Upload, false).expect_err("none").contains("has no URL ws:///"));
    }

    #[test]
    fn an_answer_without_servers_says_why() {
        let why = |text| LocatedServer::parse_answer(text).expect_err("no servers");
        let refused = r#"{"error": {"type": "x", "title": "Too many requests", "status": 429}}"#;
        assert_eq!(why(refused), "Too many requests");
        assert_eq!(why("{}"), "no server is free");
        assert!(why("<html>").starts_with("its answer is invalid"));
    }
}
