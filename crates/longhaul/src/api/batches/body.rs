//! Reads the body of a batch, with limits on its compressed and decompressed size.

use crate::api::fault::Fault;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use flate2::read::GzDecoder;
use std::borrow::Cow;
use std::io::Read;
use std::time::Duration;

/// The maximum size of the body on the wire.
const BODY_BYTES: usize = 32 << 20;
/// The maximum decompressed size: the largest report of the archive, with its quotes escaped.
const UNPACKED_BYTES: u64 = 80 << 20;
/// The timeout for the body, long enough for slow links.
const ARRIVES: Duration = Duration::from_secs(150);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packed {
    Plain,
    Gzip,
}

fn too_large(text: String) -> Fault {
    Fault::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", text).hint("send fewer items at once")
}

pub async fn read(request: Request) -> Result<(Packed, Vec<u8>), Fault> {
    let packed = packed(request.headers())?;
    let announced = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|it| it.to_str().ok()?.parse::<u64>().ok());
    let most = format!("a batch has at most {BODY_BYTES} bytes");
    if announced.is_some_and(|bytes| bytes > BODY_BYTES as u64) {
        return Err(too_large(most));
    }
    let arriving = to_bytes(request.into_body(), BODY_BYTES);
    match tokio::time::timeout(ARRIVES, arriving).await {
        Ok(Ok(bytes)) => Ok((packed, bytes.into())),
        Ok(Err(error)) if is_over(&error) => Err(too_large(most)),
        // The connection is broken, so this error is never read.
        Ok(Err(_cut_off)) => Err(Fault::busy("cut_off", "the batch broke off")),
        Err(_late) => Err(Fault::busy("too_slow", "the batch took too long to arrive")),
    }
}

fn is_over(error: &axum::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(inner) = cause {
        if inner.to_string().contains("length limit") {
            return true;
        }
        cause = inner.source();
    }
    false
}

fn packed(headers: &HeaderMap) -> Result<Packed, Fault> {
    match headers
        .get(header::CONTENT_ENCODING)
        .map(HeaderValue::as_bytes)
    {
        None | Some(b"identity") => Ok(Packed::Plain),
        Some(b"gzip") => Ok(Packed::Gzip),
        Some(_) => Err(
            Fault::asked("the batch is packed in a way that is not known")
                .hint("Content-Encoding may be gzip, or absent"),
        ),
    }
}

pub fn unpack(packed: Packed, bytes: &[u8]) -> Result<Cow<'_, [u8]>, Fault> {
    if packed == Packed::Plain {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut unpacked = Vec::new();
    GzDecoder::new(bytes)
        .take(UNPACKED_BYTES + 1)
        .read_to_end(&mut unpacked)
        .map_err(|error| Fault::asked(format!("the batch cannot be unpacked: {error}")))?;
    if unpacked.len() as u64 > UNPACKED_BYTES {
        let text = format!("unpacked, a batch has at most {UNPACKED_BYTES} bytes");
        return Err(too_large(text));
    }
    Ok(Cow::Owned(unpacked))
}
