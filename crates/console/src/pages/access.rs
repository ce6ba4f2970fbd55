//! Access: the mode, the subjects with their roles, the access tokens, the refused calls, and "can X do Y?".

use std::future::ready;

use axum::http::{Method, StatusCode};
use futures_util::FutureExt as _;
use holdfast_api::{
    AccessTokenBody, AccessTokensBody, AuthBody, ErrorCode, RolesBody, SubjectsBody, VerdictBody,
    escape_query,
};
use holdfast_types::{Right, Stamp};
use maud::{Markup, html};

use crate::call::{ApiCall, ApiResult, problem};
use crate::form::link;
use crate::layout::{missing, problem_box};
use crate::page::{ConsoleAction, ConsolePage, PageContent, PageRequest, PlannedChange};
use crate::text::{at, count, name, visible};

pub(super) static PAGE: ConsolePage = ConsolePage {
    path: "access",
    title: "Access",
    in_navigation: true,
    render: |request| render(request).boxed(),
};

pub(super) static NEW_TOKEN: ConsoleAction =
    ConsoleAction { name: "new-token", plan: |request| ready(Ok(new_token(request))).boxed() };
pub(super) static ROTATE_TOKEN: ConsoleAction =
    ConsoleAction { name: "rotate-token", plan: |request| rotate_token(request).boxed() };
pub(super) static DELETE_TOKEN: ConsoleAction =
    ConsoleAction { name: "delete-token", plan: |request| delete_token(request).boxed() };

async fn render(request: &PageRequest) -> ApiResult<PageContent> {
    let api = &request.api;
    let may_manage = request.may(Right::AuthManage, "").await;
    let (auth, subjects): (ApiResult<AuthBody>, ApiResult<SubjectsBody>) =
        (api.read("/v1/auth").await, api.read("/v1/auth/subjects").await);
    let (tokens, roles): (ApiResult<AccessTokensBody>, ApiResult<RolesBody>) =
        (api.read("/v1/auth/tokens").await, api.read("/v1/auth/roles").await);
    let live = html! {
        @match &auth { Ok(auth) => (mode(auth, request.now)), Err(problem) => (missing("the mode", problem)) }
        @match &tokens { Ok(tokens) => (token_table(tokens, may_manage, request.now)), Err(problem) => (missing("the access tokens", problem)) }
        @match &subjects { Ok(subjects) => (subject_table(subjects)), Err(problem) => (missing("the subjects", problem)) }
        @match &roles { Ok(roles) => (role_table(roles)), Err(problem) => (missing("the roles", problem)) }
    };
    let below = html! { @if !request.is_update { (question(request).await) } };
    Ok(PageContent {
        title: "Access".to_owned(),
        above: html! { @if may_manage { (token_form()) } },
        live,
        below,
        revision: api.place().revision,
    })
}

fn token_form() -> Markup {
    html! {
        form method="get" action="act" class="filters" id="new-token" {
            input type="hidden" name="do" value=(NEW_TOKEN.name);
            label for="subject" { "New access token for the subject" }
            input id="subject" name="subject" required autocomplete="off" spellcheck="false";
            button type="submit" { "Continue" }
        }
    }
}

fn mode(auth: &AuthBody, now: Stamp) -> Markup {
    html! {
        section aria-labelledby="mode-title" {
            h2 id="mode-title" { "Mode" }
            p id="mode" data-mode=(auth.mode) {
                strong { (auth.mode) }
                @match auth.mode.as_str() {
                    "on" => ": calls without a permission are refused.",
                    "shadow" => ": every call is executed; the node lists the calls that the mode on would refuse.",
                    _ => ": every call is executed.",
                }
            }
            @if auth.sessions_without_credential > 0 { p { (count(auth.sessions_without_credential, "session")) " without a credential." } }
            @if !auth.refusals.is_empty() {
                h3 { "Refused calls" }
                ul id="refusals" { @for refusal in &auth.refusals {
                    li { (count(refusal.count, "call")) " of "
                        @match &refusal.subject { Some(subject) => (name(subject.as_str())), None => "callers without a valid credential" }
                        ": " (visible(&refusal.why)) ", last at " (at(refusal.last_at.0, now)) }
                } }
            }
        }
    }
}

fn token_table(tokens: &AccessTokensBody, may_manage: bool, now: Stamp) -> Markup {
    html! {
        section aria-labelledby="tokens-title" {
            h2 id="tokens-title" { "Access tokens" }
            @if tokens.tokens.is_empty() { p { "There is no access token. The first one comes from " code { "holdfast auth bootstrap" } "." } } @else {
                div class="scroll" {
                    table id="tokens" class="rows" {
                        thead { tr { th scope="col" { "Id" } th scope="col" { "Subject" } th scope="col" { "Created" } th scope="col" { "Expires" }
                            @if may_manage { th scope="col" { "Change" } } } }
                        tbody { @for token in &tokens.tokens { (token_row(token, may_manage, now)) } }
                    }
                }
            }
        }
    }
}

fn token_row(token: &AccessTokenBody, may_manage: bool, now: Stamp) -> Markup {
    let id = token.id.to_string();
    let act = |action: &'static str| link("act", &[("do", action), ("id", &id)]);
    html! {
        tr id={ "token-" (id) } data-token=(id) data-expired=(token.expired) {
            th scope="row" { code { (id) } }
            td { (name(token.subject.as_str())) }
            td { (at(token.created_at.0, now)) }
            td {
                @match &token.expires_at {
                    Some(_) if token.expired => strong.bad { "expired" },
                    Some(end) => { (holdfast_types::format_time(end.0)) }
                    None => "never",
                }
            }
            @if may_manage { td { a href=(act(ROTATE_TOKEN.name)) { "Rotate" } " " a href=(act(DELETE_TOKEN.name)) { "Delete" } } }
        }
    }
}

fn subject_table(subjects: &SubjectsBody) -> Markup {
    html! {
        section aria-labelledby="subjects-title" {
            h2 id="subjects-title" { "Subjects" }
            div class="scroll" { table id="subjects" class="rows" {
                thead { tr { th scope="col" { "Subject" } th scope="col" { "Roles" } th scope="col" { "Certificates" } } }
                tbody { @for subject in &subjects.subjects { tr data-subject=(subject.subject) {
                    th scope="row" { (name(subject.subject.as_str())) }
                    td { @for role in &subject.roles { span.tag { (visible(role.as_str())) } " " } }
                    td { @for certificate in &subject.certificates { (name(certificate.as_str())) " " } }
                } } }
            } }
        }
    }
}

fn role_table(roles: &RolesBody) -> Markup {
    html! {
        section aria-labelledby="roles-title" {
            h2 id="roles-title" { "Roles" }
            div class="scroll" { table id="roles" class="rows" {
                thead { tr { th scope="col" { "Role" } th scope="col" { "Permissions" } } }
                tbody { @for role in &roles.roles { tr data-role=(role.role) {
                    th scope="row" { (name(role.role.as_str())) @if role.built_in { " " span.quiet { "built in" } } }
                    td { @for permission in &role.permissions { code { (visible(permission)) } " " } }
                } } }
            } }
        }
    }
}

/// The form "can X do Y?", with the answer for the fields of the page.
async fn question(request: &PageRequest) -> Markup {
    let (permission, subject) = (request.fields.typed("permission"), request.fields.typed("as"));
    let answer = match permission {
        Some(permission) => {
            let subject = subject.map(|subject| format!("&as={}", escape_query(subject)));
            let permission = escape_query(permission);
            let target =
                format!("/v1/auth/can?permission={permission}{}", subject.unwrap_or_default());
            Some(request.api.read::<VerdictBody>(&target).await)
        }
        None => None,
    };
    html! {
        section aria-labelledby="can-title" id="can" {
            h2 id="can-title" { "Can a subject do it?" }
            form method="get" action="access" class="filters" {
                label for="as" { "Subject" }
                input id="as" name="as" value=[subject] autocomplete="off" spellcheck="false";
                label for="permission" { "Permission, such as " code { "lock acquire orders/eu" } }
                input id="permission" name="permission" value=[permission] required autocomplete="off" spellcheck="false";
                button type="submit" { "Ask" }
            }
            @match &answer {
                Some(Ok(verdict)) => (verdict_text(verdict)),
                Some(Err(problem)) => (problem_box(problem)),
                None => {}
            }
        }
    }
}

fn verdict_text(verdict: &VerdictBody) -> Markup {
    html! {
        p id="verdict" role="status" data-allowed=(verdict.allowed) {
            strong { @if verdict.allowed { "Yes" } @else { "No" } } ": " code { (visible(&verdict.asked)) }
            @if let Some(role) = &verdict.role { ", by the role " (name(role)) }
            @if let Some(permission) = &verdict.permission { " with " code { (visible(permission)) } }
            @if let Some(namespace) = &verdict.outside_of { "; the name is outside of the namespace " (name(namespace.as_str())) }
            @if !verdict.allowed && verdict.outside_of.is_none() { "; no role of the subject has it" }
            "."
        }
    }
}

fn new_token(request: &PageRequest) -> PlannedChange {
    let subject = request.fields.typed("subject").unwrap_or_default().to_owned();
    let effect = html! {
        p { "Subject " (name(&subject)) " gets one more access token, with the lifetime of the token policy." }
        p { "The next page shows the secret once. No call returns it later." }
    };
    let query = vec![("subject", subject.clone())];
    let call = ApiCall { method: Method::POST, path: "/v1/auth/tokens".to_owned(), query };
    let (title, back) = (format!("New access token for {subject}"), "access".to_owned());
    let change = PlannedChange::new(title, "Create the access token", effect, call, back);
    PlannedChange { has_secret: true, ..change }
}

async fn rotate_token(request: &PageRequest) -> ApiResult<PlannedChange> {
    let token = wanted(request).await?;
    let effect = html! {
        p { "Subject " (name(token.subject.as_str())) " gets a new access token. The token " code { (token.id) } " stays valid for 24 hours." }
        p { "The next page shows the secret once. No call returns it later." }
    };
    let path = format!("{}/rotate", holdfast_api::access_token_path(token.id));
    let call = ApiCall { method: Method::POST, path, query: Vec::new() };
    let (title, back) = (format!("Rotate access token {}", token.id), "access".to_owned());
    let change = PlannedChange::new(title, "Rotate the access token", effect, call, back);
    Ok(PlannedChange { has_secret: true, ..change })
}

async fn delete_token(request: &PageRequest) -> ApiResult<PlannedChange> {
    let token = wanted(request).await?;
    let effect = html! {
        p { "No later call with the access token " code { (token.id) } " of " (name(token.subject.as_str())) " is executed." }
        p { "Waits and streams of its callers end within a second. The sessions of the subject last until their TTL." }
    };
    let path = holdfast_api::access_token_path(token.id);
    let call = ApiCall { method: Method::DELETE, path, query: Vec::new() };
    let (title, back) = (format!("Delete access token {}", token.id), "access".to_owned());
    let change = PlannedChange::new(title, "Delete the access token", effect, call, back);
    Ok(PlannedChange { typed: Some(token.id.to_string()), ..change })
}

/// The access token that the field `id` names.
async fn wanted(request: &PageRequest) -> ApiResult<AccessTokenBody> {
    let id = request.fields.get("id").unwrap_or_default();
    let tokens: AccessTokensBody = request.api.read("/v1/auth/tokens").await?;
    let found = tokens.tokens.into_iter().find(|token| token.id.to_string() == id);
    found.ok_or_else(|| {
        let code = (ErrorCode::NotFound, StatusCode::NOT_FOUND);
        problem(code, "there is no such access token", "open the page of the access tokens again")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_its_actions_only_for_a_reader_who_may_use_them() {
        let text = r#"{"id":"0123456789abc","subject":"ci/deploy","created_at":"2026-03-01T14:05:09.000Z","expired":true,
            "expires_at":"2026-03-02T14:05:09.000Z"}"#;
        let token: AccessTokenBody = serde_json::from_str(text).unwrap();
        let row =
            |may_manage| token_row(&token, may_manage, Stamp(1_772_373_969_000)).into_string();
        assert!(row(true).contains("act?do=rotate-token&amp;id=0123456789abc"), "{}", row(true));
        assert!(!row(false).contains("act?") && row(false).contains("expired"), "{}", row(false));
    }

    #[test]
    fn a_verdict_is_a_word_with_its_reason() {
        let verdict = |text: &str| verdict_text(&serde_json::from_str(text).unwrap()).into_string();
        let yes = verdict(
            r#"{"allowed":true,"asked":"lock acquire a","role":"writer","permission":"lock acquire *"}"#,
        );
        assert!(yes.contains("<strong>Yes</strong>") && yes.contains("writer"), "{yes}");
        let no = verdict(r#"{"allowed":false,"asked":"lock acquire a"}"#);
        assert!(
            no.contains("<strong>No</strong>") && no.contains("no role of the subject"),
            "{no}"
        );
    }
}
