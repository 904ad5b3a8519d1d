//! Reads the body of a batch, with limits on its compressed and decompressed size.

use crate::api::api_error::ApiError;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use flate2::read::GzDecoder;
use std::borrow::Cow;
use std::io::Read;
use std::time::Duration;

/// The maximum size of the body on the wire.
const MAX_BODY_BYTES: usize = 32 << 20;
/// The maximum decompressed size: the largest report of the archive, with its quotes escaped.
const MAX_DECOMPRESSED_BYTES: u64 = 80 << 20;
/// The timeout for the body, long enough for slow links.
const BODY_TIMEOUT: Duration = Duration::from_secs(150);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyEncoding {
    Identity,
    Gzip,
}

fn reject_too_large(text: String) -> ApiError {
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", text).hint("send fewer items at once")
}

pub async fn read_body(request: Request) -> Result<(BodyEncoding, Vec<u8>), ApiError> {
    let packed = parse_encoding(request.headers())?;
    let announced = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|it| it.to_str().ok()?.parse::<u64>().ok());
    let most = format!("a batch may have at most {MAX_BODY_BYTES} bytes");
    if announced.is_some_and(|bytes| bytes > MAX_BODY_BYTES as u64) {
        return Err(reject_too_large(most));
    }
    let arriving = to_bytes(request.into_body(), MAX_BODY_BYTES);
    match tokio::time::timeout(BODY_TIMEOUT, arriving).await {
        Ok(Ok(bytes)) => Ok((packed, bytes.into())),
        Ok(Err(error)) if is_length_error(&error) => Err(reject_too_large(most)),
        // The connection is broken, so this error is never read.
        Ok(Err(_cut_off)) => Err(ApiError::unavailable(
            "cut_off",
            "the connection ended before the end of the batch",
        )),
        Err(_late) => Err(ApiError::unavailable("too_slow", "the batch took too long to arrive")),
    }
}

fn is_length_error(error: &axum::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(inner) = cause {
        if inner.to_string().contains("length limit") {
            return true;
        }
        cause = inner.source();
    }
    false
}

fn parse_encoding(headers: &HeaderMap) -> Result<BodyEncoding, ApiError> {
    match headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None | Some(b"identity") => Ok(BodyEncoding::Identity),
        Some(b"gzip") => Ok(BodyEncoding::Gzip),
        Some(_) => Err(ApiError::bad_request("the Content-Encoding of the batch is not supported")
            .hint("use Content-Encoding gzip, or none")),
    }
}

pub fn decompress_body(packed: BodyEncoding, bytes: &[u8]) -> Result<Cow<'_, [u8]>, ApiError> {
    if packed == BodyEncoding::Identity {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut unpacked = Vec::new();
    GzDecoder::new(bytes)
        .take(MAX_DECOMPRESSED_BYTES + 1)
        .read_to_end(&mut unpacked)
        .map_err(|error| ApiError::bad_request(format!("cannot decompress the batch: {error}")))?;
    if unpacked.len() as u64 > MAX_DECOMPRESSED_BYTES {
        let text = format!("a decompressed batch may have at most {MAX_DECOMPRESSED_BYTES} bytes");
        return Err(reject_too_large(text));
    }
    Ok(Cow::Owned(unpacked))
}
