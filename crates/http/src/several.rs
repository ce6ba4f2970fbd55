//! Several locks at once: taking them all, and giving them all back.

use axum::http::StatusCode;

use holdfast_api::{AcquireAllParams, GrantAllBody, GrantBody, ReleaseAllParams};
use holdfast_service::{GrantedMany, Response, session_or_anonymous};
use holdfast_types::{AcquireAll, Owner, ReleaseAll, queue_fields};

use crate::call::CallContext;
use crate::reply::Reply;
use crate::status::{HttpError, of_refusal};

/// `POST /v1/locks`
pub(crate) async fn acquire(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let fields = call.fields(&AcquireAllParams::KEYS)?;
    let params = AcquireAllParams::parse(&fields).map_err(of_refusal)?;
    call.log_fields.session.clone_from(&params.session);
    call.log_fields.wait = params.wait;
    let AcquireAllParams {
        locks, session, owner, attempt, ttl, wait, mode, max_hold, labels, ..
    } = params;
    let (wait, wait_ms) = queue_fields(wait);
    let acquire = AcquireAll {
        locks,
        open: session_or_anonymous(session, ttl, labels).map_err(|f| call.error(f))?,
        owner: owner.unwrap_or_else(Owner::unnamed),
        wait,
        wait_ms,
        mode: mode.unwrap_or_default(),
        max_hold_ms: max_hold.map(holdfast_types::millis),
        attempt,
    };
    let granted = call.run(call.service().acquire_many(&call.context, acquire)).await?;
    let Response { value: GrantedMany { grants, waited, expires_in }, revision, .. } = granted;
    let now = call.now();
    let one = |grant| GrantBody::new(grant, (waited, expires_in), now, revision);
    let body = GrantAllBody { grants: grants.into_iter().map(one).collect(), revision };
    if call.wants_text() {
        let tokens: Vec<String> =
            body.grants.iter().map(|grant| format!("{} {}\n", grant.lock, grant.token)).collect();
        return Ok(Reply::text(StatusCode::OK, tokens.concat()).at(revision));
    }
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}

/// `DELETE /v1/locks`
pub(crate) async fn release(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let fields = call.fields(&ReleaseAllParams::KEYS)?;
    let params = ReleaseAllParams::parse(&fields).map_err(of_refusal)?;
    call.log_fields.session = Some(params.session.clone());
    let ReleaseAllParams { locks, session, owner, attempt, redirect: _ } = params;
    let owner = owner.unwrap_or_else(Owner::unnamed);
    let release = ReleaseAll { locks, session, owner, attempt };
    let released = call.run(call.service().release_many(release)).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).at(released.revision))
}
