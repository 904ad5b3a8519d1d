//! Routes and the limits that apply to all of them.

use super::fault::Fault;
use super::{Shared, about, events, hosts, live, mesh, metrics, openapi, orders, page, planned};
use super::{routes, runs};
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::sync::Arc;
use std::time::Duration;
use tower_http::compression::CompressionLayer;
use utoipa_axum::router::OpenApiRouter;

/// The maximum size of a request body.
const BODY_BYTES: usize = 64 << 10;
/// The maximum size of a URI with its parameters.
const ADDRESS_BYTES: usize = 8 << 10;
/// The timeout for request body and start of the response. Queries have shorter timeouts.
const ANSWER: Duration = Duration::from_secs(15);

/// The page runs no inline code and connects only to its own origin.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// Returns the routes that require read access. Batches of other agents have their own tokens, so
/// [`router`] adds their route separately.
pub fn guarded() -> OpenApiRouter<Arc<Shared>> {
    use utoipa_axum::routes as route;
    OpenApiRouter::with_openapi(openapi::head())
        .routes(route!(about::about))
        .routes(route!(mesh::pairs))
        .routes(route!(mesh::grid))
        .routes(route!(mesh::series))
        .routes(route!(routes::routes))
        .routes(route!(events::events))
        .routes(route!(events::event))
        .routes(route!(events::case))
        .routes(route!(runs::runs, orders::order))
        .routes(route!(runs::run))
        .routes(route!(planned::planned))
        .routes(route!(orders::jobs))
        .routes(route!(hosts::hosts))
        .routes(route!(live::live))
        .routes(route!(openapi::document))
        .routes(route!(metrics::metrics))
}

/// Returns all routes.
pub fn router(shared: Arc<Shared>) -> Router {
    let batches = super::batches::router(Arc::clone(&shared.desk));
    let (guarded, _document) = guarded().split_for_parts();
    let guarded = guarded
        .route_layer(from_fn_with_state(Arc::clone(&shared), may_read))
        .layer(DefaultBodyLimit::max(BODY_BYTES));
    Router::new()
        .merge(guarded)
        .route("/healthz", get(healthy))
        .fallback(page::page)
        .with_state(shared)
        .method_not_allowed_fallback(not_so)
        .layer(CompressionLayer::new().gzip(true))
        .layer(from_fn(within_bounds))
        // Batches are larger and take longer; they have their own limits.
        .merge(batches)
        .layer(from_fn(with_headers))
}

/// Returns `ok` while the process responds; /api/v1/about covers the archive.
async fn healthy() -> &'static str {
    "ok\n"
}

async fn not_so(method: Method) -> Fault {
    let text = format!("this address does not take {method}");
    Fault::new(StatusCode::METHOD_NOT_ALLOWED, "bad_method", text)
        .hint("docs/api.md says what it takes")
}

async fn may_read(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Result<Response, Fault> {
    shared.gate.may_read(request.headers())?;
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Limits URI length and time, and turns a panic into an error response.
pub(super) async fn within_bounds(request: Request, next: Next) -> Response {
    if request
        .uri()
        .path_and_query()
        .map_or(0, |it| it.as_str().len())
        > ADDRESS_BYTES
    {
        let text = format!("the address is longer than {ADDRESS_BYTES} bytes");
        return Fault::new(StatusCode::URI_TOO_LONG, "bad_request", text).into_response();
    }
    let mut answer = tokio::spawn(next.run(request));
    match tokio::time::timeout(ANSWER, &mut answer).await {
        Ok(Ok(response)) => response,
        Ok(Err(_panicked)) => Fault::defect("the answer").into_response(),
        Err(_late) => {
            answer.abort();
            let seconds = ANSWER.as_secs();
            let text = format!("no answer within {seconds} s");
            Fault::busy("too_slow", text)
                .hint("send the request without pauses, or ask for less")
                .into_response()
        }
    }
}

async fn with_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    for (name, value) in HEADERS {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}
