//! The login: an access token becomes a cookie that no script can read.
//!
//! The cookie has a derived access token of the same subject, which lasts at most [`LOGIN_MAX`] and which a logout deletes,
//! where the caller may create tokens. Other callers keep their token in the cookie, for as long.

use std::time::Duration;

use axum::http::request::Parts;
use axum::http::{HeaderValue, Method};
use holdfast_api::{CallerBody, IssuedTokenBody, Problem, access_token_path, format_duration};
use holdfast_types::{AccessTokenId, Stamp};
use maud::{Markup, html};

use crate::call::{ApiCall, ApiCalls, ApiResult};
use crate::form::{
    DERIVED, FormFields, FormSecret, GIVEN, cookie_name, has_derived_token, set_cookie, token_of,
};
use crate::page::is_of_credential;
use crate::{ConsoleState, layout};

/// The longest time without a new login.
pub(crate) const LOGIN_MAX: Duration = Duration::from_hours(8);
/// The page with the form.
pub(crate) fn page(next: &str, secret: &FormSecret, refused: Option<&Problem>) -> Markup {
    let body = html! {
        h1 { "Log in" }
        @if let Some(refused) = refused { (layout::problem_box(refused)) }
        form method="post" action="login" class="panel narrow" {
            (secret.field())
            input type="hidden" name="next" value=(next);
            label for="token" { "Access token" }
            input type="password" id="token" name="token" required autofocus autocomplete="off" spellcheck="false";
            button type="submit" { "Log in" }
        }
        p { "An administrator creates a token: " code { "holdfast auth token new SUBJECT --ttl 8h" } }
        p.quiet {
            "The login lasts at most 8 hours, in a cookie that no script can read. If the subject may create tokens, the cookie has a \
             new token, which a logout deletes. Otherwise it has this token, and a logout only removes the cookie."
        }
    };
    layout::bare("Log in", &body)
}

/// The cookie of a new login.
///
/// # Errors
/// The API does not accept the token.
pub(crate) async fn log_in(
    console: &ConsoleState,
    parts: &Parts,
    fields: &FormFields,
    now: Stamp,
) -> ApiResult<Option<HeaderValue>> {
    let has_tls = (console.settings.has_tls)(&parts.extensions);
    let token = fields.typed("token").unwrap_or_default();
    let api = ApiCalls::new(console.api.clone(), parts, Some(token));
    let caller: CallerBody = api.read("/v1/auth/me").await?;
    let left = caller.expires_at.map(|end| Duration::from_millis(end.0.0.saturating_sub(now.0)));
    let lifetime = left.map_or(LOGIN_MAX, |left| left.min(LOGIN_MAX));
    let value = match derive(&api, &caller, lifetime).await {
        Some(issued) => format!("{DERIVED}{}", issued.token),
        None => format!("{GIVEN}{token}"),
    };
    Ok(set_cookie(&cookie_name("holdfast", has_tls), &value, Some(lifetime), has_tls))
}

/// A token of the same subject that lasts as long as the login; `None` if the API creates none for this caller now.
async fn derive(
    api: &ApiCalls,
    caller: &CallerBody,
    lifetime: Duration,
) -> Option<IssuedTokenBody> {
    let subject = caller.subject.as_ref()?.to_string();
    let query = vec![("subject", subject), ("ttl", format_duration(lifetime))];
    let call = ApiCall { method: Method::POST, path: "/v1/auth/tokens".to_owned(), query };
    let answer = api.change(&call).await.ok()?;
    serde_json::from_slice(&answer.body).ok()
}

/// The end of a login.
#[derive(Debug)]
pub(crate) struct Logout {
    /// Replaces the cookie of the login, also if the token was not deleted.
    pub(crate) cookie: Option<HeaderValue>,
    /// Why the derived token was not deleted.
    pub(crate) refused: Option<Box<Problem>>,
}

/// Deletes the derived token.
pub(crate) async fn log_out(console: &ConsoleState, parts: &Parts) -> Logout {
    let has_tls = (console.settings.has_tls)(&parts.extensions);
    let refused = match token_of(parts, has_tls).filter(|_| has_derived_token(parts, has_tls)) {
        Some(token) => delete(&ApiCalls::new(console.api.clone(), parts, Some(token))).await.err(),
        None => None,
    };
    // A token that is no longer valid needs no deletion.
    let refused = refused.filter(|problem| !is_of_credential(problem.code));
    let name = cookie_name("holdfast", has_tls);
    Logout { cookie: set_cookie(&name, "", Some(Duration::ZERO), has_tls), refused }
}

async fn delete(api: &ApiCalls) -> ApiResult<()> {
    let caller: CallerBody = api.read("/v1/auth/me?stale").await?;
    if let Some(id) = caller.token {
        api.change(&deletion(id)).await?;
    }
    Ok(())
}

/// The page after a logout whose token was not deleted.
pub(crate) fn remaining_token(refused: &Problem) -> Markup {
    let body = html! {
        h1 { "Logged out" }
        p { "This browser no longer has the access token. The node did not delete it: the token is valid until it expires, at most 8 hours after the login." }
        (layout::problem_box(refused))
        p { a href="login" { "Log in" } }
    };
    layout::bare("Logged out", &body)
}

fn deletion(token: AccessTokenId) -> ApiCall {
    ApiCall { method: Method::DELETE, path: access_token_path(token), query: Vec::new() }
}
