//! Actions: a page shows the effect and the call before a form sends it.
//!
//! `GET act?do=NAME` shows the effect, the line for `curl` and the form; `POST act` sends one call of the API, and redirects to
//! the page that it came from, with a notice. Both plan the change from the same fields, and the call names what the page showed.

use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use holdfast_api::{ErrorCode, Problem};
use holdfast_types::{Reason, Revision};
use maud::{Markup, html};

use crate::call::{ApiAnswer, ApiCall, ApiResult, problem};
use crate::form::{FormFields, link};
use crate::layout::{problem_box, snippet};
use crate::page::{ConsoleAction, PageReply, PageRequest, PlannedChange};
use crate::text::visible;

/// Fields that the pages of actions use themselves.
const OWN_FIELDS: [&str; 6] = ["do", "form", "reason", "typed", "done", "at"];
/// Fields that name what a PATCH changes.
const TARGETS: [&str; 2] = ["name", "id"];

/// Plans the action of the fields.
async fn plan(actions: &[&ConsoleAction], request: &PageRequest) -> ApiResult<PlannedChange> {
    let wanted = request.fields.get("do").unwrap_or_default();
    let Some(action) = actions.iter().find(|action| action.name == wanted) else {
        let code = (ErrorCode::NotFound, StatusCode::NOT_FOUND);
        return Err(problem(code, "there is no such action", "open the page of the lock again"));
    };
    (action.plan)(request).await
}

/// Shows the effect, the call and the form.
///
/// # Errors
/// The state cannot be read, or has changed since.
pub(crate) async fn show(
    actions: &[&ConsoleAction],
    request: &PageRequest,
) -> ApiResult<PageReply> {
    let planned = plan(actions, request).await?;
    Ok(PageReply::Page(StatusCode::OK, planned.title.clone(), form(request, &planned, None)))
}

/// Makes the change.
///
/// # Errors
/// `foreign-site`; the state cannot be read. A refused call is a page with the form.
pub(crate) async fn make(
    actions: &[&ConsoleAction],
    request: &PageRequest,
    parts: &Parts,
) -> ApiResult<PageReply> {
    request.form_secret.check(parts, &request.fields)?;
    let planned = plan(actions, request).await?;
    let call = match completed(&planned, &request.fields) {
        Ok(call) => call,
        Err(refused) => return Ok(refused_form(request, &planned, &refused)),
    };
    match request.api.change(&call).await {
        Ok(answer) if planned.has_secret => Ok(secret(&planned, &answer)),
        Ok(answer) => Ok(PageReply::Redirect(done(&planned, request, answer.revision))),
        Err(refused) => Ok(refused_form(request, &planned, &refused)),
    }
}

/// The call with the reason.
fn completed(planned: &PlannedChange, fields: &FormFields) -> ApiResult<ApiCall> {
    let invalid = (ErrorCode::InvalidArgument, StatusCode::BAD_REQUEST);
    if let Some(typed) = &planned.typed
        && fields.typed("typed") != Some(typed)
    {
        let detail = format!("the typed text is not {typed}");
        return Err(problem(invalid, detail, "type it exactly as it is shown"));
    }
    let mut call = planned.call.clone();
    if planned.takes_reason {
        let Some(reason) = fields.typed("reason") else {
            let hint = "say why, for the holders and for the audit trail";
            return Err(problem(invalid, "the reason is missing", hint));
        };
        call.query.push(("reason", reason.to_owned()));
    }
    Ok(call)
}

/// Whether the form repeats a field. A PATCH has only the values that its page showed as changes: another reader may have
/// changed the other ones since.
fn is_confirmed(call: &ApiCall, field: &str) -> bool {
    let is_in_call = || call.query.iter().any(|(name, _)| *name == field);
    let is_partial = call.method == Method::PATCH && !TARGETS.contains(&field);
    !OWN_FIELDS.contains(&field) && (!is_partial || is_in_call())
}

fn refused_form(request: &PageRequest, planned: &PlannedChange, refused: &Problem) -> PageReply {
    let page = form(request, planned, Some(refused));
    PageReply::Page(crate::layout::status_of(refused), planned.title.clone(), page)
}

fn done(planned: &PlannedChange, request: &PageRequest, revision: Option<Revision>) -> String {
    let revision = revision.map(|revision| revision.to_string()).unwrap_or_default();
    let action = request.fields.get("do").unwrap_or_default();
    link(&planned.back, &[("done", action), ("at", &revision)])
}

/// The response of a call that has a secret.
fn secret(planned: &PlannedChange, answer: &ApiAnswer) -> PageReply {
    let pretty = serde_json::from_slice::<serde_json::Value>(&answer.body)
        .and_then(|value| serde_json::to_string_pretty(&value))
        .unwrap_or_default();
    let page = html! {
        h1 { (visible(&planned.title)) }
        p role="status" { "Done. The secret appears only here: copy it now." }
        (snippet("secret", "the response", &pretty))
        p { a href=(planned.back) { "Back" } }
    };
    PageReply::Page(StatusCode::OK, planned.title.clone(), page)
}

/// The page with the effect, the line for `curl` and the form.
fn form(request: &PageRequest, planned: &PlannedChange, refused: Option<&Problem>) -> Markup {
    let mut shown = planned.call.clone();
    if planned.takes_reason {
        let reason = request.fields.typed("reason").unwrap_or("WHY");
        shown.query.push(("reason", reason.to_owned()));
    }
    let curl = shown.curl(&request.address, request.api.has_credential());
    let hidden = request.fields.iter().filter(|(name, _)| is_confirmed(&planned.call, name));
    html! {
        h1 { (visible(&planned.title)) }
        @if let Some(refused) = refused { (problem_box(refused)) }
        section aria-labelledby="effect-title" class="panel" {
            h2 id="effect-title" { "Effect" }
            div id="effect" { (planned.effect) }
        }
        form method="post" action="act" class="panel" id="change" {
            (request.form_secret.field())
            input type="hidden" name="do" value=[request.fields.get("do")];
            @for (name, value) in hidden {
                input type="hidden" name=(name) value=(value);
            }
            @if planned.takes_reason {
                label for="reason" { "Reason, for the holders and for the audit trail" }
                input id="reason" name="reason" required maxlength=(Reason::MAX_LEN) autocomplete="off"
                    value=[request.fields.typed("reason")];
            }
            @if let Some(typed) = &planned.typed {
                label for="typed" { "Type " code { (typed) } " to confirm" }
                input id="typed" name="typed" required autocomplete="off" spellcheck="false";
            }
            div class="buttons" {
                button type="submit" class="danger" { (planned.button) }
                a href=(planned.back) { "Cancel" }
            }
        }
        (snippet("call", "the same call for a shell", &curl))
    }
}
