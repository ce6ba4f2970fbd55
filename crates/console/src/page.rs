//! What a page and an action are, and the request that they are rendered from: who reads, its fields, and the time.
//!
//! A page is a static [`ConsolePage`], an action a static [`ConsoleAction`]; `pages` lists them.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::http::header::HOST;
use axum::http::request::Parts;
use axum::http::uri::Authority;
use futures_util::future::BoxFuture;
use holdfast_api::{CallerBody, ErrorCode, Problem, VerdictBody, escape_query};
use holdfast_types::{LockName, Revision, Right, Stamp};
use maud::{Markup, html};
use parking_lot::Mutex;

use crate::call::{ApiCall, ApiCalls, ApiResult, problem};
use crate::form::{FormFields, FormSecret, link, token_of};
use crate::{ConsoleState, Incoming};

/// The pages and the actions of the console.
#[derive(Debug)]
pub(crate) struct PageCatalog {
    /// In the order of the navigation.
    pub(crate) pages: &'static [&'static ConsolePage],
    pub(crate) actions: &'static [&'static ConsoleAction],
}

/// A page: its path below `/ui/`, and how it is rendered.
#[derive(Debug)]
pub(crate) struct ConsolePage {
    /// One component; empty for the first page.
    pub(crate) path: &'static str,
    /// In the navigation and in the title.
    pub(crate) title: &'static str,
    pub(crate) in_navigation: bool,
    pub(crate) render: for<'a> fn(&'a PageRequest) -> BoxFuture<'a, ApiResult<PageContent>>,
}

impl ConsolePage {
    /// The relative link.
    pub(crate) fn link(&self) -> &'static str {
        if self.path.is_empty() { "./" } else { self.path }
    }
}

/// What a page shows.
#[derive(Debug, Default)]
pub(crate) struct PageContent {
    pub(crate) title: String,
    /// Above the live region: filters and links. An update leaves it alone.
    pub(crate) above: Markup,
    /// The live region.
    pub(crate) live: Markup,
    /// Below the live region: forms and examples.
    pub(crate) below: Markup,
    /// The revision of the live region; `None` for figures without one.
    pub(crate) revision: Option<Revision>,
}

impl PageContent {
    /// The live region as its own element, as in the page and as in an update.
    pub(crate) fn live_region(&self) -> Markup {
        html! {
            div id="live" data-revision=[self.revision] { (self.live) }
        }
    }
}

/// An action of a page.
#[derive(Debug)]
pub(crate) struct ConsoleAction {
    /// In the field `do`.
    pub(crate) name: &'static str,
    /// Reads the state, and plans the change from the fields.
    pub(crate) plan: for<'a> fn(&'a PageRequest) -> BoxFuture<'a, ApiResult<PlannedChange>>,
}

/// A change with its effect, before it is made.
#[derive(Debug)]
pub(crate) struct PlannedChange {
    /// Such as `Force-release orders`.
    pub(crate) title: String,
    /// The text of the button.
    pub(crate) button: &'static str,
    /// What happens to whom.
    pub(crate) effect: Markup,
    /// The call, without its reason.
    pub(crate) call: ApiCall,
    /// Whether the call takes a reason, which is then required.
    pub(crate) takes_reason: bool,
    /// A text that the reader must type first, for a change that is hard to undo.
    pub(crate) typed: Option<String>,
    /// The page that the reader came from.
    pub(crate) back: String,
    /// Whether the response has a secret, which is shown once instead of the notice.
    pub(crate) has_secret: bool,
}

impl PlannedChange {
    /// A change without a reason, a text to type and a secret.
    pub(crate) fn new(
        title: String,
        button: &'static str,
        effect: Markup,
        call: ApiCall,
        back: String,
    ) -> Self {
        let (takes_reason, typed, has_secret) = (false, None, false);
        Self { title, button, effect, call, takes_reason, typed, back, has_secret }
    }
}

/// The result of a page or an action.
#[derive(Debug)]
pub(crate) enum PageReply {
    /// A title and the content of the frame.
    Page(StatusCode, String, Markup),
    Whole(Markup),
    /// A relative link.
    Redirect(String),
}

/// The longest name of a host with its port, bytes.
const HOST_MAX: usize = 261;

/// What a page is rendered from.
#[derive(Debug)]
pub(crate) struct PageRequest {
    pub(crate) api: ApiCalls,
    pub(crate) fields: FormFields,
    pub(crate) now: Stamp,
    /// The address that the reader has called: `http://node1:7400`.
    pub(crate) address: String,
    pub(crate) caller: CallerBody,
    pub(crate) form_secret: FormSecret,
    /// Whether only the live region is wanted.
    pub(crate) is_update: bool,
    verdicts: Mutex<BTreeMap<String, bool>>,
}

/// Why a page is not shown.
#[derive(Debug)]
pub(crate) enum NotShown {
    /// The reader must log in first.
    LoginNeeded,
    Problem(Box<Problem>),
}

impl From<Box<Problem>> for NotShown {
    fn from(problem: Box<Problem>) -> Self {
        Self::Problem(problem)
    }
}

impl PageRequest {
    /// Reads who the reader is.
    ///
    /// # Errors
    /// [`NotShown::LoginNeeded`] without a valid credential where calls need one.
    pub(crate) async fn open(
        console: &ConsoleState,
        incoming: &Incoming<'_>,
    ) -> Result<Self, NotShown> {
        let Incoming { parts, form, secret, now } = *incoming;
        let has_tls = (console.settings.has_tls)(&parts.extensions);
        let token = token_of(parts, has_tls);
        let api = ApiCalls::new(console.api.clone(), parts, token);
        let caller = match api.read::<CallerBody>("/v1/auth/me?stale").await {
            Ok(caller) => caller,
            Err(problem) if is_of_credential(problem.code) => return Err(NotShown::LoginNeeded),
            Err(problem) => return Err(problem.into()),
        };
        if caller.mode == "on" && caller.credential == "none" {
            return Err(NotShown::LoginNeeded);
        }
        Ok(Self {
            api,
            fields: FormFields::of_both(parts.uri.query(), form),
            now,
            address: address(parts, has_tls),
            caller,
            form_secret: secret.clone(),
            is_update: false,
            verdicts: Mutex::default(),
        })
    }

    /// The lock that the field `name` names.
    ///
    /// # Errors
    /// A missing or invalid name.
    pub(crate) fn lock(&self) -> ApiResult<LockName> {
        let name = self.fields.get("name").unwrap_or_default();
        LockName::new(name).map_err(|error| {
            let code = (ErrorCode::BadName, StatusCode::BAD_REQUEST);
            problem(code, error.to_string(), "open the lock from the list of locks")
        })
    }

    /// Whether the reader may make a call. The API decides again when it receives the call.
    pub(crate) async fn may(&self, right: Right, name: &str) -> bool {
        if self.caller.mode != "on" {
            return true;
        }
        let asked = if name.is_empty() { right.to_string() } else { format!("{right} {name}") };
        if let Some(known) = self.verdicts.lock().get(&asked) {
            return *known;
        }
        let target = format!("/v1/auth/can?permission={}", escape_query(&asked));
        let verdict = self.api.read::<VerdictBody>(&target).await;
        let allowed = verdict.is_ok_and(|verdict| verdict.allowed);
        self.verdicts.lock().insert(asked, allowed);
        allowed
    }

    /// The page of the reader, without the notice of the last change.
    pub(crate) fn own_link(&self, page: &str) -> String {
        let fields: Vec<_> =
            self.fields.iter().filter(|(name, _)| !["done", "at"].contains(name)).collect();
        link(page, &fields)
    }
}

pub(crate) fn is_of_credential(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::Unauthenticated | ErrorCode::TokenExpired)
}

/// The address that the reader has called; `http://localhost:7400` without a usable `Host`.
fn address(parts: &Parts, has_tls: bool) -> String {
    let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| parts.uri.authority().map(Authority::as_str)).unwrap_or_default();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    let usable = !host.is_empty() && host.len() <= HOST_MAX && host.bytes().all(is_plain);
    let host = if usable { host } else { "localhost:7400" };
    format!("{}://{host}", if has_tls { "https" } else { "http" })
}
