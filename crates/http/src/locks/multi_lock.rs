//! Multi-locks: `POST /v1/locks` acquires several locks, all or none; `DELETE /v1/locks` releases several.

use std::time::Duration;

use axum::http::StatusCode;
use holdfast_api::parameters::lock::{
    MAX_HOLD, MULTI_LOCK_MODE, NAMES, QUEUE_MAX, RELEASED_MULTI_LOCK_SESSION, SESSION,
};
use holdfast_api::parameters::{ATTEMPT, INCARNATION, LABELS, OWNER, RELEASED_ATTEMPT, TTL, WAIT};
use holdfast_api::{CallParams as _, GrantAllBody, GrantBody, ParamError, Schemas, params};
use holdfast_service::{Granted, Response};
use holdfast_types::{
    Acquire, AcquireOptions, Attempt, Grant, Labels, LockName, LockSet, LockSetError, Mode, Owner,
    Release, ReleaseTarget, SessionId, SessionName, Ttl, millis,
};

use super::acquire::with_queue_max_hint;
use super::acquiring::{ACQUIRE_ERRORS, acquiring_session};
use super::release::RELEASE_ERRORS;
use crate::access::{CallAccess, LOCK_ACQUIRE};
use crate::body::BodyKind;
use crate::call::{CallContext, HandlerResult, accepts_text};
use crate::late_copies::LateCopies;
use crate::operation::{Content, Example, Method, Operation, ResponseSpec, handler};
use crate::reply::Reply;
use crate::routes::LOCKS;

pub(crate) static ACQUIRE: Operation = Operation {
    summary: "Acquire several locks at once, all or none",
    description: "The call joins every queue and is granted when it is first in all of them. Such calls never deadlock with \
        each other, and calls for fewer locks do not starve them. Every lock has its own token. The same call sent again \
        renews the holds.",
    params: AcquireManyParams::LIST,
    example: Example { query: "name=account/7&name=account/9&session=me", body: "" },
    answers: || {
        let about = "The caller holds all of them";
        let granted = ResponseSpec::json(StatusCode::OK, about, Schemas::of::<GrantAllBody>);
        vec![granted.or("text/plain", Content::Text)]
    },
    errors: ACQUIRE_ERRORS,
    late_copies: LateCopies::Attempt,
    body: BodyKind::LISTS,
    ..Operation::change("acquireLocks", Method::Post, &LOCKS, LOCK_ACQUIRE, handler!(acquire))
};

pub(crate) static RELEASE: Operation = Operation {
    summary: "Release several locks, or leave their queues",
    description: "With attempt a late copy of the call changes nothing. Without it the call ends every hold and every wait \
        that the owner has when the call arrives.",
    params: ReleaseManyParams::LIST,
    example: Example { query: "name=account/7&name=account/9&session=me", body: "" },
    answers: || ResponseSpec::no_content("The places are given up"),
    errors: RELEASE_ERRORS,
    late_copies: LateCopies::Release,
    body: BodyKind::LISTS,
    ..Operation::change(
        "releaseLocks",
        Method::Delete,
        &LOCKS,
        CallAccess::Subject,
        handler!(release),
    )
};

params! {
    struct AcquireManyParams {
        names: Vec<LockName> = NAMES,
        session: Option<SessionName> = SESSION,
        incarnation: Option<SessionId> = INCARNATION,
        owner: Option<Owner> = OWNER,
        attempt: Option<Attempt> = ATTEMPT,
        ttl: Option<Ttl> = TTL,
        wait: Duration = WAIT,
        queue_max: Option<u32> = QUEUE_MAX,
        mode: Option<Mode> = MULTI_LOCK_MODE,
        max_hold: Option<Duration> = MAX_HOLD,
        labels: Labels = LABELS,
    }

    struct ReleaseManyParams {
        names: Vec<LockName> = NAMES,
        session: SessionName = RELEASED_MULTI_LOCK_SESSION,
        owner: Option<Owner> = OWNER,
        attempt: Option<Attempt> = RELEASED_ATTEMPT,
    }
}

async fn acquire(call: &mut CallContext<'_>) -> HandlerResult {
    let params: AcquireManyParams = call.params()?;
    let locks = checked_names(params.names)?;
    call.log_fields.lock = locks.single().cloned();
    call.log_fields.wait = params.wait;
    let (attempt, labels) = (params.attempt, params.labels);
    let session = (params.session, params.incarnation);
    let open = acquiring_session(call, session, (attempt, None), params.ttl, labels)?;
    let acquire =
        Acquire::new(locks, open, params.owner.unwrap_or_else(Owner::unnamed)).waiting(params.wait);
    let acquire = Acquire {
        attempt,
        mode: params.mode,
        queue_max: params.queue_max,
        options: AcquireOptions {
            max_hold_ms: params.max_hold.map(millis),
            ..AcquireOptions::PLAIN
        },
        ..acquire
    };
    let granted = call.run(call.service().acquire(acquire)).await;
    let granted = granted.map_err(|problem| with_queue_max_hint(problem, params.queue_max))?;
    let Response { value: Granted { grant, others, waited, expires_in }, revision, .. } = granted;
    let grants = std::iter::once(grant).chain(others);
    if accepts_text(&call.parts.headers) {
        let line = |grant: Grant| format!("{} {}\n", grant.lock, grant.token);
        let tokens: String = grants.map(line).collect();
        return Ok(Reply::text(StatusCode::OK, tokens).at(revision));
    }
    let now = call.now();
    let body = |grant| GrantBody::new(grant, (waited, expires_in), now, revision);
    let grants: Vec<GrantBody> = grants.map(body).collect();
    let body = GrantAllBody { note: list_note(&grants), grants, revision };
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}

/// The note for a name that looks like a list: a comma is part of the name of one lock.
fn list_note(grants: &[GrantBody]) -> Option<String> {
    let name = grants.iter().map(|grant| grant.lock.as_str()).find(|name| name.contains(','))?;
    let each: Vec<String> = name.split(',').map(|one| format!("name={one}")).collect();
    Some(format!(
        "'{name}' is the name of one lock; repeat the parameter for several locks: {}",
        each.join("&")
    ))
}

async fn release(call: &mut CallContext<'_>) -> HandlerResult {
    let ReleaseManyParams { names, session, owner, attempt } = call.params()?;
    let locks = checked_names(names)?;
    call.log_fields.session = Some(session.clone());
    let target = attempt.map_or(ReleaseTarget::AnyEntry, ReleaseTarget::Attempt);
    let release = Release { locks, session, owner: owner.unwrap_or_else(Owner::unnamed), target };
    call.no_content(call.service().release(release)).await
}

/// The distinct locks of a call: from one to the maximum of a multi-lock.
fn checked_names(names: Vec<LockName>) -> Result<LockSet, ParamError> {
    let repeated = (1..names.len()).find(|index| names[..*index].contains(&names[*index]));
    let (detail, hint) = match repeated {
        Some(index) => (format!("'name' states '{}' twice", names[index]), "name each lock once"),
        None if names.is_empty() => {
            ("'name' is required".to_owned(), "name each lock once: ?name=a&name=b")
        }
        None => (
            format!("'name' is given more than {} times", LockSet::MAX),
            "acquire fewer locks together",
        ),
    };
    LockSet::new(names).map_err(|LockSetError| ParamError::invalid("name", detail).hint(hint))
}

#[cfg(test)]
mod tests {
    use holdfast_api::ErrorCode;

    use super::*;

    #[test]
    fn a_multi_lock_has_1_to_16_different_names() {
        let read = |query: &str| checked_names(AcquireManyParams::from_query(query)?.names);
        assert_eq!(read("name=b&name=a").unwrap().count(), 2);
        let many = |count| (0..count).map(|i| format!("name=l{i}")).collect::<Vec<_>>().join("&");
        assert_eq!(read(&many(16)).unwrap().count(), 16);
        for query in ["", "name=a&name=b&name=a", many(17).as_str()] {
            let error = read(query).unwrap_err();
            assert_eq!(error.parameter.as_deref(), Some("name"), "{query}");
            // The command line shows a parameter of a hint as an option.
            let has_parameter = error.hint.is_some_and(|hint| hint.contains("?name="));
            assert_eq!(has_parameter, query.is_empty(), "{query}");
        }
        assert_eq!(read("name=a&name=").unwrap_err().code, ErrorCode::BadName);
    }

    #[test]
    fn a_multi_lock_cannot_be_upgradable() {
        let error = AcquireManyParams::from_query("name=a&mode=upgradable").unwrap_err();
        assert_eq!(error.detail, "'mode' is not one of exclusive, shared");
    }
}
