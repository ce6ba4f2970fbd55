//! `/v1/tree-quotas`: the quotas of subtrees of znodes, which clients of ZooKeeper set with `setquota`.

use axum::http::StatusCode;
use holdfast_api::parameters::tree_quota::{BYTES, SOFT_BYTES, SOFT_ZNODES, ZNODES};
use holdfast_api::{
    CallParams as _, ErrorCode, Facts, ParamError, Problem, Schemas, TREE_QUOTAS_PATH,
    TreeQuotaBody, TreeQuotasBody, params,
};
use holdfast_types::{QuotaZnodes, SubtreeLimits, ZnodePath};

use crate::access::{TREE_READ, TREE_WRITE};
use crate::call::{CallContext, HandlerResult, PageParams, ReadParams, read_mode};
use crate::operation::{Example, Method, Operation, ResponseSpec, handler};
use crate::routes::{TREE_QUOTA, TREE_QUOTAS};
use crate::status::HttpError;

pub(crate) static LIST: Operation = Operation {
    summary: "List the quotas of subtrees, in order of their paths",
    description: "If there are more, the response has a next_page_token for the parameter page_token of the next call. The \
        call needs the permission to read every znode below /zookeeper/quota.",
    params: PageParams::LIST,
    answers: || {
        vec![ResponseSpec::json(StatusCode::OK, "A page of quotas", Schemas::of::<TreeQuotasBody>)]
    },
    errors: &[ErrorCode::BadName],
    ..Operation::read("listTreeQuotas", &TREE_QUOTAS, TREE_READ, handler!(list))
};

pub(crate) static READ: Operation = Operation {
    summary: "Read the quota of a subtree, and what the subtree uses",
    params: ReadParams::LIST,
    answers: || vec![ResponseSpec::json(StatusCode::OK, "The quota", Schemas::of::<TreeQuotaBody>)],
    errors: &[ErrorCode::NotFound],
    ..Operation::read("readTreeQuota", &TREE_QUOTA, TREE_READ, handler!(read))
};

pub(crate) static SET: Operation = Operation {
    summary: "Set the quota of a subtree, or replace it",
    description: "A limit that the call does not name is unlimited. The subtree includes its root, which need not exist. A write \
        beyond znodes or bytes is rejected with quota-exceeded; a subtree above soft_znodes or soft_bytes raises the alarm \
        tree-quota-soft. The call writes the znode /zookeeper/quota/PATH/zookeeper_limits as a client of ZooKeeper does with \
        setquota, and needs the permission to write it.",
    params: SetParams::LIST,
    example: Example { query: "znodes=1000&soft_znodes=800", body: "" },
    answers: || ResponseSpec::no_content("The quota is set"),
    errors: &[ErrorCode::QuotaExceeded, ErrorCode::EphemeralParent],
    ..Operation::change("setTreeQuota", Method::Put, &TREE_QUOTA, TREE_WRITE, handler!(set))
};

pub(crate) static DELETE: Operation = Operation {
    summary: "Delete the quota of a subtree",
    description: "As a client of ZooKeeper does with delquota. The znodes of the subtree stay.",
    answers: || ResponseSpec::no_content("The quota is deleted"),
    errors: &[ErrorCode::NotFound, ErrorCode::NotEmpty],
    ..Operation::change(
        "deleteTreeQuota",
        Method::Delete,
        &TREE_QUOTA,
        TREE_WRITE,
        handler!(delete),
    )
};

params! {
    struct SetParams {
        znodes: Option<u64> = ZNODES,
        bytes: Option<u64> = BYTES,
        soft_znodes: Option<u64> = SOFT_ZNODES,
        soft_bytes: Option<u64> = SOFT_BYTES,
    }
}

async fn list(call: &mut CallContext<'_>) -> HandlerResult {
    let PageParams { limit, page_token, stale } = call.params()?;
    let after = page_token.map(ZnodePath::new).transpose();
    let after = after.map_err(|error| ParamError::bad_name("page_token", &error))?;
    let found = call.service().subtree_quotas(after, limit, read_mode(stale));
    call.ok(found, |page, _| TreeQuotasBody::from(page)).await
}

async fn read(call: &mut CallContext<'_>) -> HandlerResult {
    let (path, znodes) = subtree(call)?;
    let ReadParams { stale } = call.params()?;
    let found = call.service().subtree_quota(&path, znodes.clone(), read_mode(stale));
    let read = call.ok(found, |quota, _| TreeQuotaBody::from(quota)).await;
    read.map_err(|problem| without_quota(problem, &path, &znodes))
}

async fn set(call: &mut CallContext<'_>) -> HandlerResult {
    let (path, znodes) = subtree(call)?;
    let SetParams { znodes: count, bytes, soft_znodes, soft_bytes } = call.params()?;
    check_counted(&path)?;
    let limits = SubtreeLimits { znodes: count, bytes, soft_znodes, soft_bytes };
    call.no_content(call.service().set_subtree_quota(znodes, limits)).await
}

async fn delete(call: &mut CallContext<'_>) -> HandlerResult {
    let (path, znodes) = subtree(call)?;
    let deleted = call.no_content(call.service().delete_subtree_quota(znodes.clone())).await;
    deleted.map_err(|problem| without_quota(problem, &path, &znodes))
}

/// The subtree that the path names, and the znodes of its quota.
fn subtree(call: &mut CallContext<'_>) -> Result<(ZnodePath, QuotaZnodes), HttpError> {
    let path = call.path_after(TREE_QUOTAS_PATH)?;
    let znodes = QuotaZnodes::of(&path);
    let znodes = znodes.map_err(|error| ParamError::new(ErrorCode::BadName, error.to_string()))?;
    Ok((path, znodes))
}

/// Rejects a quota that would count nothing.
fn check_counted(path: &ZnodePath) -> Result<(), ParamError> {
    let is_uncounted = path.as_str() == "/zookeeper" || path.as_str().starts_with("/zookeeper/");
    if !is_uncounted {
        return Ok(());
    }
    let detail = format!("'{path}' has no quota: znodes below /zookeeper count for none");
    Err(ParamError::new(ErrorCode::BadName, detail).hint("name a subtree outside /zookeeper"))
}

/// Names the quota in the error of a quota that does not exist, in place of its znode.
fn without_quota(problem: HttpError, path: &ZnodePath, znodes: &QuotaZnodes) -> HttpError {
    if problem.code != ErrorCode::NotFound || problem.facts.path.as_ref() != Some(&znodes.limits) {
        return problem;
    }
    let facts = Facts { path: Some(path.clone()), ..Facts::default() };
    let detail = format!("the subtree '{path}' has no quota");
    let hint = format!("GET {TREE_QUOTAS_PATH} lists the quotas; a PUT with ?znodes=N sets one");
    Box::new(Problem::new(ErrorCode::NotFound, detail).hint(hint).facts(facts))
}
