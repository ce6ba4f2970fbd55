//! `POST /v1/tree/{dir}?sequential`: create a znode whose name gets the directory's next number.

use std::time::Duration;

use axum::http::StatusCode;
use holdfast_api::parameters::tree::{
    ACL, CONTAINER, EPHEMERAL, NAME, PARENTS, SEQUENTIAL, SESSION, TTL,
};
use holdfast_api::{CallParams as _, ErrorCode, ParamError, Schemas, ZnodeBody, params};
use holdfast_types::{AclEntry, Data, Op, OpReply, SessionName, ZnodePath};

use super::new_znode::{KindParams, NewZnode};
use super::{CREATE_ERRORS, ETAG, LOCATION, caller, change, created, unexpected_reply};
use crate::access::TREE_WRITE;
use crate::body::BodyKind;
use crate::call::{CallContext, HandlerResult};
use crate::operation::{Example, Method, Operation, ResponseSpec, handler};
use crate::precondition::{Precondition, contradiction};
use crate::routes::TREE;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Create a child znode whose name ends with the next number of the directory",
    description: "The body is the data. The call rejects If-Match and If-None-Match.",
    params: PostParams::LIST,
    example: Example { query: "sequential&name=job-", body: "" },
    answers: || {
        let about = "The znode is created";
        let created = ResponseSpec::json(StatusCode::CREATED, about, Schemas::of::<ZnodeBody>);
        vec![created.with(&[ETAG, LOCATION])]
    },
    errors: &CREATE_ERRORS,
    body: BodyKind::Data,
    ..Operation::change("createZnode", Method::Post, &TREE, TREE_WRITE, handler!(post))
};

params! {
    struct PostParams {
        _sequential: bool = SEQUENTIAL,
        name: Option<String> = NAME,
        session: Option<SessionName> = SESSION,
        ephemeral: bool = EPHEMERAL,
        container: bool = CONTAINER,
        ttl: Option<Duration> = TTL,
        acl: Vec<AclEntry> = ACL,
        parents: bool = PARENTS,
    }
}

async fn post(call: &mut CallContext<'_>) -> HandlerResult {
    let directory = call.znode()?;
    let params: PostParams = call.params()?;
    let PostParams { name, session, ephemeral, container, ttl, acl, parents, .. } = params;
    let caller = caller(call, session);
    let kind = KindParams { ephemeral, container, ttl }.kind(caller.session.is_some());
    let kind = kind?;
    // A node that does not exist yet has no version.
    if Precondition::of(&call.parts.headers)? != Precondition::None {
        return Err(contradiction());
    }
    let name = name.unwrap_or_default();
    check_name(&directory, &name)?;
    let acl = Some(acl).filter(|acl| !acl.is_empty());
    let data = Data::from(&call.body[..]);
    let create = NewZnode { kind, acl, parents }.named(directory, name, data, true);
    match change(call, caller, Op::Create(create)).await? {
        (OpReply::Created { path, stat }, revision) => Ok(created(path, stat, revision)),
        _ => Err(unexpected_reply()),
    }
}

fn check_name(directory: &ZnodePath, name: &str) -> Result<(), ParamError> {
    if name.contains('/') {
        let detail = "'name' contains '/'";
        return Err(ParamError::of("name", ErrorCode::BadName, detail)
            .hint("put the directory into the path of the call: POST /v1/tree/DIRECTORY"));
    }
    let numbered = directory.child(&format!("{name}0"));
    numbered.map(drop).map_err(|error| ParamError::bad_name("name", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_is_required_and_the_name_has_no_slash() {
        let error = PostParams::from_query("").unwrap_err();
        assert_eq!(error.parameter.as_deref(), Some("sequential"));
        assert_eq!(PostParams::from_query("sequential").unwrap().name, None);
        let named = PostParams::from_query("sequential&name=job-").unwrap();
        assert_eq!(named.name.as_deref(), Some("job-"));
        assert!(check_name(&ZnodePath::root(), "job-").is_ok());
        let error = check_name(&ZnodePath::root(), "a/b").unwrap_err();
        assert_eq!(error.code, ErrorCode::BadName);
    }
}
