//! Reads the body of a batch, with limits on its size.

use crate::agent::export::format_error_chain;
use crate::api::api_error::ApiError;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use std::time::Duration;

/// The maximum announced size of the body on the wire.
const MAX_ANNOUNCED_BYTES: u64 = 32 << 20;
/// The maximum decompressed size: the largest report of the archive, with its quotes escaped.
const MAX_BODY_BYTES: usize = 80 << 20;
/// The timeout for the body, long enough for slow links.
const BODY_TIMEOUT: Duration = Duration::from_secs(150);

fn reject_too_large() -> ApiError {
    let text = format!("a batch may have at most {MAX_ANNOUNCED_BYTES} bytes");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", text).hint("send fewer items at once")
}

/// Reads the decompressed body of a request.
pub async fn read_body(request: Request) -> Result<Vec<u8>, ApiError> {
    let announced = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|it| it.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|bytes| bytes > MAX_ANNOUNCED_BYTES) {
        return Err(reject_too_large());
    }
    let arriving = to_bytes(request.into_body(), MAX_BODY_BYTES);
    match tokio::time::timeout(BODY_TIMEOUT, arriving).await {
        Ok(Ok(bytes)) => Ok(bytes.into()),
        Ok(Err(error)) => {
            let why = format_error_chain(&error);
            if why.contains("length limit") {
                return Err(reject_too_large());
            }
            Err(ApiError::bad_request(format!("cannot decompress the batch: {why}")))
        }
        Err(_late) => Err(ApiError::unavailable("too_slow", "the batch took too long to arrive")),
    }
}
