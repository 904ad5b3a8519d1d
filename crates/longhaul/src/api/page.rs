//! Serves the web page from the files that the build embedded in the program.

use super::fault::Fault;
use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};

/// One file of the page.
struct File {
    /// From the root, without the slash.
    path: &'static str,
    bytes: &'static [u8],
}

/// `FILES`, written by build.rs.
mod built {
    use super::File;
    include!(concat!(env!("OUT_DIR"), "/page.rs"));
}

const INDEX: &str = "index.html";
/// Where the names of files carry a hash of what is in them.
const HASHED: &str = "assets/";

/// Any address that is none of the API: a file, or the page, which knows its own addresses.
pub async fn page(request: Request) -> Response {
    let path = request.uri().path().trim_start_matches('/');
    if path == "api" || path.starts_with("api/") {
        return Fault::nothing("the API has no such address")
            .hint("docs/api.md and /api/v1/openapi.json name all of them")
            .into_response();
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let text = "the page can only be read";
        return Fault::new(StatusCode::METHOD_NOT_ALLOWED, "read_only", text).into_response();
    }
    let named = |path: &str| built::FILES.iter().find(|file| file.path == path);
    let file = match named(path) {
        Some(file) => Some(file),
        // An older page that asks for a part that is gone must not get a page in its place.
        None if path.starts_with(HASHED) => None,
        None => named(INDEX),
    };
    file.map_or_else(
        || Fault::nothing("the page has no such file; reload it").into_response(),
        answer,
    )
}

fn answer(file: &File) -> Response {
    let cache = if file.path.starts_with(HASHED) {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    let headers = [(CONTENT_TYPE, kind(file.path)), (CACHE_CONTROL, cache)];
    (headers, file.bytes).into_response()
}

fn kind(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::{File, INDEX, built, kind};

    #[test]
    fn there_is_a_page_and_every_file_has_a_kind() {
        let index = built::FILES.iter().find(|file| file.path == INDEX);
        let text = index.map(|file| String::from_utf8_lossy(file.bytes));
        assert!(text.is_some_and(|text| text.contains("longhaul")));
        let strange = |file: &&File| kind(file.path) == "application/octet-stream";
        assert_eq!(built::FILES.iter().filter(strange).count(), 0);
    }
}
