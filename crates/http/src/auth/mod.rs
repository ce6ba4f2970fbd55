//! Calls on subjects, roles, access tokens and the audit trail: one file for each call.

pub(crate) mod audit;
pub(crate) mod bootstrap;
pub(crate) mod can;
pub(crate) mod delete_role;
pub(crate) mod delete_subject;
pub(crate) mod delete_token;
pub(crate) mod denied_certificates;
pub(crate) mod list_roles;
pub(crate) mod list_subjects;
pub(crate) mod list_tokens;
pub(crate) mod me;
pub(crate) mod new_token;
pub(crate) mod quotas;
pub(crate) mod read;
pub(crate) mod recover;
pub(crate) mod rotate_token;
pub(crate) mod set_mode;
pub(crate) mod set_role;
pub(crate) mod set_subject;
pub(crate) mod set_token_policy;

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use holdfast_api::{ErrorCode, IssuedTokenBody, Param, ParamError, Problem, Rfc3339Time};
use holdfast_service::{IssuedToken, Response};
use holdfast_types::{Revision, TokenLifetime};
use serde::Serialize;

use crate::call::CallContext;
use crate::identity::Peer;
use crate::reply::Reply;
use crate::status::HttpError;

/// The lifetime that a call wants; `None` if it names none.
fn lifetime(never: bool, ttl: Option<Duration>) -> Result<Option<TokenLifetime>, ParamError> {
    match (never, ttl) {
        (true, Some(_)) => {
            let detail = "'ttl' and 'never' exclude each other";
            Err(ParamError::of("never", ErrorCode::InvalidArgument, detail)
                .hint("send one of them, or neither"))
        }
        (true, None) => Ok(Some(TokenLifetime::Never)),
        (false, ttl) => Ok(ttl.map(TokenLifetime::Of)),
    }
}

/// The response with the secret of a new access token, which no cache may keep.
fn issued(issued: Response<IssuedToken>) -> Reply {
    let Response { value, revision, .. } = issued;
    secret_reply(&issued_body(value), revision)
}

fn issued_body(IssuedToken { token, subject, expires_at }: IssuedToken) -> IssuedTokenBody {
    let expires_at = expires_at.map(Rfc3339Time);
    IssuedTokenBody { token: token.reveal(), id: token.id, subject, expires_at }
}

/// A response that no cache may keep.
fn secret_reply(body: &impl Serialize, revision: Revision) -> Reply {
    let no_store = HeaderValue::from_static("no-store");
    Reply::json(StatusCode::CREATED, body).at(revision).with_header(header::CACHE_CONTROL, no_store)
}

/// Proves that the caller owns the data directory of the node.
const PROOF: Param = Param::bounded_text(
    "proof",
    128,
    "The content of the file owner-proof in the node's data directory, which the caller has written",
)
.needed("0000000000000000000000000000000000000000000000000000000000000000");

/// Compares a proof with the file in the data directory, and deletes the file.
fn check_owner(call: &CallContext<'_>, proof: &str, hint: &'static str) -> Result<(), HttpError> {
    if call.state.service().takes_owner_proof(proof) {
        return Ok(());
    }
    let detail =
        "the proof is not the content of the file owner-proof in this node's data directory";
    Err(Box::new(Problem::new(ErrorCode::Forbidden, detail).hint(hint)))
}

/// Rejects callers from other machines without a certificate of the cluster's CA.
fn check_is_near(call: &CallContext<'_>) -> Result<(), HttpError> {
    let peer = call.parts.extensions.get::<Peer>();
    if peer.is_some_and(|peer| peer.address.to_canonical().is_loopback() || peer.has_certificate())
    {
        return Ok(());
    }
    let detail = "the call comes from another machine, without a client certificate";
    let hint = "run it on the machine of a node";
    Err(Box::new(Problem::new(ErrorCode::Forbidden, detail).hint(hint)))
}
