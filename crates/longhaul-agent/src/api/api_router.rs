//! Routes and the limits that apply to all of them.

use super::api_error::ApiError;
use super::{
    ApiState, about, embedded_page, event_handlers, host_handlers, live_updates, metrics, openapi,
    planned_run_handlers, route_handlers, run_handlers, series_handlers,
};
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::sync::Arc;
use std::time::Duration;
use tower_http::compression::CompressionLayer;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

/// The maximum size of a request body.
const MAX_BODY_BYTES: usize = 64 << 10;
/// The maximum size of a URI with its parameters.
const MAX_URI_BYTES: usize = 8 << 10;
/// The timeout for request body and start of the response. Queries have shorter timeouts.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// The page runs no inline code and connects only to its own origin.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const SECURITY_HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Returns the routes that require read access. Batches of other agents have their own tokens, so
/// [`build_router`] adds their route separately.
pub fn build_guarded_routes(described: OpenApi) -> OpenApiRouter<Arc<ApiState>> {
    use utoipa_axum::routes as route;
    OpenApiRouter::with_openapi(described)
        .routes(route!(about::about))
        .routes(route!(series_handlers::pairs))
        .routes(route!(series_handlers::grid))
        .routes(route!(series_handlers::transfers))
        .routes(route!(series_handlers::daily_transfers))
        .routes(route!(series_handlers::series))
        .routes(route!(route_handlers::routes))
        .routes(route!(event_handlers::events))
        .routes(route!(event_handlers::event))
        .routes(route!(event_handlers::case))
        .routes(route!(event_handlers::notes, event_handlers::add_note))
        .routes(route!(run_handlers::runs, run_handlers::order))
        .routes(route!(run_handlers::run))
        .routes(route!(planned_run_handlers::planned))
        .routes(route!(planned_run_handlers::measurements))
        .routes(route!(run_handlers::jobs))
        .routes(route!(host_handlers::hosts))
        .routes(route!(live_updates::live))
        .routes(route!(openapi::document))
        .routes(route!(metrics::metrics))
}

/// Returns all routes.
pub fn build_router(shared: Arc<ApiState>) -> Router {
    let batches = super::batch_intake::build_batch_router(Arc::clone(&shared.state));
    let (guarded, _described) = build_guarded_routes(OpenApi::default()).split_for_parts();
    let guarded = guarded
        .route_layer(from_fn_with_state(Arc::clone(&shared), require_read_access))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES));
    Router::new()
        .merge(guarded)
        .route("/healthz", get(answer_health_check))
        .fallback(embedded_page::serve_web_page)
        .with_state(shared)
        .method_not_allowed_fallback(reject_method)
        .layer(CompressionLayer::new().gzip(true))
        .layer(from_fn(limit_request))
        // Batches are larger and take longer; they have their own limits.
        .merge(batches)
        .layer(from_fn(add_security_headers))
}

/// Returns `ok` while the process responds; /api/v1/about covers the archive.
async fn answer_health_check() -> &'static str {
    "ok\n"
}

async fn reject_method(method: Method) -> ApiError {
    let text = format!("this address does not accept {method}");
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "bad_method", text)
        .hint("see docs/api.md for the methods of each address")
}

async fn require_read_access(
    State(shared): State<Arc<ApiState>>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let user = shared.authorize_read(&request)?;
    request.extensions_mut().insert(user);
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Limits URI length and time, and turns a panic into an error response.
pub(super) async fn limit_request(request: Request, next: Next) -> Response {
    if request.uri().path_and_query().map_or(0, |it| it.as_str().len()) > MAX_URI_BYTES {
        let text = format!("the URL is longer than {MAX_URI_BYTES} bytes");
        return ApiError::new(StatusCode::URI_TOO_LONG, "bad_request", text).into_response();
    }
    let mut answer = tokio::spawn(next.run(request));
    match tokio::time::timeout(ANSWER_TIMEOUT, &mut answer).await {
        Ok(Ok(response)) => response,
        Ok(Err(_panicked)) => ApiError::internal("the request").into_response(),
        Err(_late) => {
            answer.abort();
            let seconds = ANSWER_TIMEOUT.as_secs();
            let text = format!("no answer within {seconds} s");
            ApiError::unavailable("too_slow", text)
                .hint("send the request without pauses, or request less")
                .into_response()
        }
    }
}

async fn add_security_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    for (name, value) in SECURITY_HEADERS {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}
