//! `PUT /v1/tree/{path}?acl`: replace the access list of a znode. The body is `{"acl": [...]}`.

use axum::http::StatusCode;
use axum::http::header::ETAG;
use holdfast_api::parameters::tree::ACL;
use holdfast_api::{
    Param, ParamError, ParamField, ParamList, ParamValue as _, RawParams, ZnodeBody,
};
use holdfast_types::{AclEntry, Caller, Op, OpReply, ZnodePath};

use super::{change, unexpected_reply};
use crate::call::{CallContext, HandlerResult};
use crate::precondition::{Precondition, tag};
use crate::reply::Reply;

/// The parameter `acl` of a `PUT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AclParam {
    Absent,
    /// `?acl` without a value: the call replaces the list of a znode.
    InBody,
    /// `?acl=ENTRY`: the list of a new znode.
    Entries(Vec<AclEntry>),
}

impl ParamField for AclParam {
    fn read(param: &Param, fields: &RawParams<'_>) -> Result<Self, ParamError> {
        if fields.bare(param.name) {
            return Ok(Self::InBody);
        }
        let entries = Vec::read(param, fields)?;
        Ok(if entries.is_empty() { Self::Absent } else { Self::Entries(entries) })
    }
}

/// Replaces the list. `auth:` entries are stored as the caller's identities, so a `GET` returns those.
pub(super) async fn replace(
    call: &CallContext<'_>,
    path: ZnodePath,
    caller: Caller,
) -> HandlerResult {
    let acl = entries(&call.body)?;
    let version = Precondition::of(&call.parts.headers)?.version()?;
    match change(call, caller, Op::SetAcl { path: path.clone(), acl, version }).await? {
        (OpReply::AclSet { stat }, revision) => {
            let reply = Reply::json(StatusCode::OK, &ZnodeBody::new(path, stat, revision));
            Ok(reply.at(revision).with_header(ETAG, tag(stat.aversion)))
        }
        _ => Err(unexpected_reply()),
    }
}

fn entries(body: &[u8]) -> Result<Vec<AclEntry>, ParamError> {
    const BODY: ParamList = ParamList::of_call(&[ACL]).of("an access list");
    let mut fields = RawParams::default();
    fields.merge_json(body, &BODY)?;
    fields.values(ACL.name).map(|text| AclEntry::parse(&ACL, text)).collect()
}

/// Checks that a call which replaces a list has no parameter for creating a znode.
///
/// # Errors
/// [`ParamError`] names the first of `given` that is set.
pub(super) fn check_alone(given: &[(&str, bool)]) -> Result<(), ParamError> {
    let Some((param, _)) = given.iter().find(|(_, given)| *given) else { return Ok(()) };
    let detail = format!("'{param}' and 'acl' without a value exclude each other");
    Err(ParamError::invalid(param, detail).hint(format!(
        "leave {param} out to replace the access list, or create a znode with acl=scheme:id:perms"
    )))
}
