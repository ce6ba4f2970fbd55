//! The web console: pages that the node renders from replies of the public API, below `/ui/`.
//!
//! The console is a client of the API inside its process. The API authorizes, limits and records every call, so that `curl` can
//! do all that the console can. All links are relative: a proxy may serve the console below any prefix.
//!
//! A page is a file of `pages`; its state is a `page::PageRequest`. `change` has the one form of all actions, `live` the
//! updates. Bounds: `live::STREAMS_MAX` streams of updates, `FORM_BYTES_MAX` bytes of a form.

mod call;
mod change;
mod form;
mod layout;
mod live;
mod login;
mod page;
mod pages;
mod plot;
mod text;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, LOCATION, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderValue, Method, Response, StatusCode};
use axum::routing::get;
use holdfast_api::{ErrorCode, Problem};
use holdfast_types::Stamp;
use http_body_util::{BodyExt as _, Limited};
use maud::Markup;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tower::Service as _;

use crate::form::{FormFields, FormSecret, link};
use crate::live::LiveReader;
use crate::page::{ConsolePage, NotShown, PageReply, PageRequest};
use crate::pages::CATALOG;

/// The longest form.
const FORM_BYTES_MAX: usize = 16 * 1024;
/// The time for the whole form. Its sender may have no credential.
const FORM_TIMEOUT: Duration = Duration::from_secs(10);
const PREFIX: &str = "/ui/";

/// What the console needs from its node.
#[derive(Clone, Debug)]
pub struct ConsoleSettings {
    /// Whether the connection of a request has TLS, from the extensions of the request.
    pub has_tls: fn(&Extensions) -> bool,
    /// The address of the caller, from the extensions of the request.
    pub address: fn(&Extensions) -> Option<IpAddr>,
    /// Becomes true when the node stops: live updates then end.
    pub stopping: watch::Receiver<bool>,
}

#[derive(Debug)]
struct ConsoleState {
    api: Router,
    settings: ConsoleSettings,
    /// The reader of each live page.
    live_readers: Mutex<Vec<LiveReader>>,
    /// One permit: renderings for live pages follow each other.
    rendering: Arc<Semaphore>,
}

/// Adds the console to the router of the API. `/` leads a browser to the console.
pub fn router(api: Router, settings: ConsoleSettings) -> Router {
    let rendering = Arc::new(Semaphore::new(1));
    let live_readers = Mutex::default();
    let console = Arc::new(ConsoleState { api: api.clone(), settings, live_readers, rendering });
    let pages = Router::new()
        .route("/", get(first))
        .route("/ui", get(async || redirect("ui/")))
        .route(PREFIX, get(serve).post(serve))
        .route("/ui/{page}", get(serve).post(serve))
        .with_state(console);
    api.merge(pages)
}

/// `/`: the console for a browser, and the API's own reply for a program.
async fn first(State(console): State<Arc<ConsoleState>>, request: Request) -> Response<Body> {
    let accepted = request.headers().get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    if accepted
        .flat_map(|value| value.split(','))
        .any(|media| media.trim().starts_with("text/html"))
    {
        return redirect("ui/");
    }
    let Ok(response) = console.api.clone().call(request).await;
    response
}

async fn serve(State(console): State<Arc<ConsoleState>>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().strip_prefix(PREFIX).unwrap_or_default();
    if let Some(reply) = layout::asset_reply(path, &parts.headers) {
        return reply;
    }
    let form = Limited::new(body, FORM_BYTES_MAX).collect();
    let form = match tokio::time::timeout(FORM_TIMEOUT, form).await {
        Ok(Ok(form)) => String::from_utf8_lossy(&form.to_bytes()).into_owned(),
        Err(_) => {
            let code = (ErrorCode::InvalidArgument, StatusCode::REQUEST_TIMEOUT);
            let detail = "the form did not arrive in time";
            return failure(None, &call::problem(code, detail, "send it again"));
        }
        Ok(Err(error)) => {
            let code = (ErrorCode::PayloadTooLarge, StatusCode::PAYLOAD_TOO_LARGE);
            return failure(None, &call::problem(code, error.to_string(), "send a shorter text"));
        }
    };
    let has_tls = (console.settings.has_tls)(&parts.extensions);
    let secret = FormSecret::of(&parts, has_tls);
    let incoming = Incoming { parts: &parts, form: &form, secret: &secret, now: wall_clock() };
    let mut response = answer(&console, path, &incoming).await;
    if let Some(cookie) = secret.set_cookie() {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    layout::protect(response.headers_mut());
    response
}

/// A request whose form has arrived.
#[derive(Clone, Copy, Debug)]
struct Incoming<'a> {
    parts: &'a Parts,
    form: &'a str,
    secret: &'a FormSecret,
    now: Stamp,
}

async fn answer(
    console: &Arc<ConsoleState>,
    path: &str,
    incoming: &Incoming<'_>,
) -> Response<Body> {
    let is_post = incoming.parts.method == Method::POST;
    if path == "login" {
        return login_page(console, incoming).await;
    }
    if path == "logout" && is_post {
        return log_out(console, incoming).await;
    }
    let mut request = match PageRequest::open(console, incoming).await {
        Ok(request) => request,
        Err(NotShown::LoginNeeded) if path == "updates" => return live::login_needed(),
        Err(NotShown::LoginNeeded) => {
            let query = incoming.parts.uri.query();
            let next = query.map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
            return redirect(&link("login", &[("next", &next)]));
        }
        Err(NotShown::Problem(problem)) => return failure(None, &problem),
    };
    if path == "updates"
        && let Some(page) = wanted_page(&request.fields)
    {
        request.is_update = true;
        return live::stream(console, page, request, &incoming.parts.extensions);
    }
    let acted = match path {
        "act" if is_post => change::make(CATALOG.actions, &request, incoming.parts).await,
        "act" => change::show(CATALOG.actions, &request).await,
        _ => show(&request, path).await,
    };
    match acted {
        Ok(PageReply::Page(status, title, body)) => {
            html(status, &layout::framed(&CATALOG, &request, &title, &body))
        }
        Ok(PageReply::Whole(page)) => html(StatusCode::OK, &page),
        Ok(PageReply::Redirect(target)) => redirect(&target),
        Err(problem) => failure(Some(&request), &problem),
    }
}

/// The page of the field `page`. The first page has an empty path.
fn wanted_page(fields: &FormFields) -> Option<&'static ConsolePage> {
    let path = fields.get("page").unwrap_or_default();
    CATALOG.pages.iter().copied().find(|page| page.path == path)
}

async fn show(request: &PageRequest, path: &str) -> call::ApiResult<PageReply> {
    let Some(page) = CATALOG.pages.iter().find(|page| page.path == path) else {
        let code = (ErrorCode::NotFound, StatusCode::NOT_FOUND);
        let hint = "choose one of the pages above";
        return Err(call::problem(code, "the console has no such page", hint));
    };
    let content = (page.render)(request).await?;
    Ok(PageReply::Whole(layout::page(&CATALOG, request, page, &content)))
}

async fn login_page(console: &ConsoleState, incoming: &Incoming<'_>) -> Response<Body> {
    let fields = FormFields::of_both(incoming.parts.uri.query(), incoming.form);
    // A link to another site is not followed.
    let next = fields.get("next").unwrap_or_default();
    let page = next.split('?').next().unwrap_or_default();
    let next = if CATALOG.pages.iter().any(|known| known.path == page) { next } else { "" };
    if incoming.parts.method != Method::POST {
        return html(StatusCode::OK, &login::page(next, incoming.secret, None));
    }
    let checked = incoming.secret.check(incoming.parts, &fields);
    let cookie = match checked {
        Ok(()) => login::log_in(console, incoming.parts, &fields, incoming.now).await,
        Err(refused) => Err(refused),
    };
    match cookie {
        Ok(cookie) => with_cookie(redirect(if page.is_empty() { "./" } else { next }), cookie),
        Err(refused) => {
            let page = login::page(next, incoming.secret, Some(&refused));
            html(layout::status_of(&refused), &page)
        }
    }
}

async fn log_out(console: &ConsoleState, incoming: &Incoming<'_>) -> Response<Body> {
    let fields = FormFields::parse(incoming.form);
    if let Err(problem) = incoming.secret.check(incoming.parts, &fields) {
        return failure(None, &problem);
    }
    let login::Logout { cookie, refused } = login::log_out(console, incoming.parts).await;
    let response = match refused {
        Some(refused) => html(StatusCode::OK, &login::remaining_token(&refused)),
        None => redirect("login"),
    };
    with_cookie(response, cookie)
}

fn with_cookie(mut response: Response<Body>, cookie: Option<HeaderValue>) -> Response<Body> {
    if let Some(cookie) = cookie {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}

fn failure(request: Option<&PageRequest>, problem: &Problem) -> Response<Body> {
    let reader = request.map(|request| (&CATALOG, request));
    html(layout::status_of(problem), &layout::failure(reader, problem))
}

fn html(status: StatusCode, page: &Markup) -> Response<Body> {
    let mut response = Response::new(Body::from(page.0.clone()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// 303 to a link that is relative to the present page.
fn redirect(target: &str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    if let Ok(target) = HeaderValue::from_str(target) {
        response.headers_mut().insert(LOCATION, target);
    }
    response
}

/// The present time of this node.
fn wall_clock() -> Stamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Stamp(holdfast_types::millis(since))
}
