//! HTTP clients of the agent, and what it fetches by HTTP: templates and lists of hosts.

use crate::agent::export::format_error_chain;
use longhaul_model::sanitize::sanitize_line;
use longhaul_model::units::Bytes;
use reqwest::redirect::Policy;
use reqwest::{ClientBuilder, Response, Url};
use std::io;
use std::path::Path;
use std::time::Duration;

/// The maximum length of the error of a fetch.
const MAX_ERROR_CHARS: usize = 250;
/// The maximum number of redirects of a fetch.
const MAX_REDIRECTS: usize = 5;

/// The limits of a fetch.
#[derive(Debug, Clone, Copy)]
pub struct FetchLimits {
    pub bytes: u64,
    /// From the connection to the last byte.
    pub time: Duration,
}

/// Returns the builder of a client whose requests take at most `timeout`. It follows no redirects, so
/// that no secret reaches another address than the configured one.
pub(crate) fn http_client_builder(timeout: Duration) -> ClientBuilder {
    // Fails if the process has installed a provider before, which is always the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .timeout(timeout)
        .redirect(Policy::none())
        .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")))
}

/// Returns whether a path is a URL to be fetched.
pub fn is_url(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.starts_with("https://") || text.starts_with("http://"))
}

/// Fetches a text. A URL of https is not redirected to plain HTTP. Blocks the thread, which must not
/// run async tasks.
///
/// # Errors
/// A URL with a user, no answer within the time, a status other than success, more bytes than allowed,
/// or a text that is not UTF-8.
pub fn fetch_text(url: &str, limits: FetchLimits) -> io::Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let bytes = runtime
        .block_on(download_bytes(url, limits))
        .map_err(|why| io::Error::other(sanitize_line(&why, MAX_ERROR_CHARS)))?;
    String::from_utf8(bytes).map_err(|_| io::Error::other("not UTF-8"))
}

async fn download_bytes(url: &str, limits: FetchLimits) -> Result<Vec<u8>, String> {
    let url = Url::parse(url).map_err(|error| error.to_string())?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a URL with a user or a password is not fetched".to_owned());
    }
    let client = http_client_builder(limits.time)
        .redirect(Policy::limited(MAX_REDIRECTS))
        .https_only(url.scheme() == "https")
        .build()
        .map_err(|error| format_error_chain(&error))?;
    let answer = client.get(url).send().await;
    let answer = answer.map_err(|error| format_error_chain(&error.without_url()))?;
    let status = answer.status();
    if !status.is_success() {
        return Err(format!("the server answered {status}"));
    }
    read_body(answer, limits.bytes).await
}

/// Reads the body of a response with a limit of its size.
pub(crate) async fn read_body(mut response: Response, bytes_max: u64) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(piece) =
        response.chunk().await.map_err(|error| format_error_chain(&error.without_url()))?
    {
        if (body.len() + piece.len()) as u64 > bytes_max {
            return Err(format!("the answer is larger than {}", Bytes(bytes_max)));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    const LIMITS: FetchLimits = FetchLimits { bytes: 1000, time: Duration::from_secs(300) };

    /// Answers one request with each of these texts, one connection after the other, and returns the URL.
    fn serve_answers(answers: Vec<String>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/mesh.json", listener.local_addr().expect("its address"));
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().expect("a connection");
                let mut request = [0; 2000];
                let _ = stream.read(&mut request);
                let _ = stream.write_all(answer.as_bytes());
            }
            // The listener stays, so that nobody else gets the port.
            std::thread::park();
        });
        url
    }

    fn fetch_failure(url: &str, limits: FetchLimits) -> String {
        fetch_text(url, limits).expect_err("no text").to_string()
    }

    #[test]
    fn a_text_is_fetched_also_behind_a_redirect() {
        let found = "HTTP/1.1 302 Found\r\nlocation: /new.json\r\nconnection: close\r\n\r\n";
        let text = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"é\": 1}";
        let url = serve_answers(vec![found.to_owned(), text.to_owned()]);
        assert_eq!(fetch_text(&url, LIMITS).expect("a text"), "{\"é\": 1}");
    }

    #[test]
    fn more_than_the_limit_is_refused_with_and_without_a_stated_length() {
        let long = "x".repeat(1001);
        let stated = format!("HTTP/1.1 200 OK\r\ncontent-length: 1001\r\n\r\n{long}");
        let unstated = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{long}");
        let url = serve_answers(vec![stated, unstated]);
        for _ in 0..2 {
            assert_eq!(fetch_failure(&url, LIMITS), "the answer is larger than 1000 B");
        }
    }

    #[test]
    fn a_server_that_never_finishes_is_left_at_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("its address"));
        let why = fetch_failure(&url, FetchLimits { time: Duration::from_millis(50), ..LIMITS });
        assert!(why.contains("timed out"), "{why}");
    }

    #[test]
    fn failures_name_their_reason_and_no_secret() {
        let gone = "HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\n".to_owned();
        let url = serve_answers(vec![gone]);
        assert_eq!(fetch_failure(&url, LIMITS), "the server answered 404 Not Found");
        let why = fetch_failure("http://me:secret@127.0.0.1/", LIMITS);
        assert!(why.contains("a user or a password") && !why.contains("secret"), "{why}");
        assert!(fetch_failure("http://", LIMITS).contains("host"));
    }
}
