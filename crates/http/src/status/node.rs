//! Rejections of changes and reads of the tree. Every problem names the node.

use holdfast_api::{ErrorCode, Facts, Problem};
use holdfast_types::{Perms, QuotaKind, TreeRejection, ZnodePath};

use super::{ErrorContext, HttpError, internal};

pub(super) fn of_rejection(rejection: TreeRejection, context: &ErrorContext<'_>) -> HttpError {
    match rejection {
        TreeRejection::NoZnode { path } => {
            let detail = format!("znode '{path}' does not exist");
            let hint = "PUT without If-Match creates it; ?parents also creates its missing parents";
            about(path, ErrorCode::NotFound, detail, hint)
        }
        TreeRejection::ZnodeExists { path } => {
            let detail = format!("znode '{path}' exists already");
            let hint =
                "PUT without If-None-Match, ephemeral, container, ttl and acl replaces its data";
            about(path, ErrorCode::ZnodeExists, detail, hint)
        }
        TreeRejection::NotEmpty { path } => {
            let detail = format!("'{path}' has children");
            about(path, ErrorCode::NotEmpty, detail, "add ?recursive to delete them as well")
        }
        TreeRejection::BadVersion { path, actual } => {
            let detail = format!("'{path}' has version {actual}");
            let hint = "read it again, then send the change with the new version";
            let mut problem = about(path, ErrorCode::VersionMismatch, detail, hint);
            problem.facts.version = u64::try_from(actual).ok();
            problem
        }
        TreeRejection::NoChildrenForEphemerals { path } => {
            let detail = format!("'{path}' is ephemeral or a queue entry, so it has no children");
            about(path, ErrorCode::EphemeralParent, detail, "choose a path that is not below it")
        }
        TreeRejection::Reserved { path } => {
            let detail = format!("'{path}' is reserved");
            about(path, ErrorCode::BadName, detail, "choose another name")
        }
        TreeRejection::NotAllowed { path, needed } => forbidden(path, needed, context),
        TreeRejection::BadAcl { path } => bad_acl(path),
        TreeRejection::QuotaExceeded { path, quota, limit, used } => {
            quota_exceeded(path, quota, limit, used)
        }
        TreeRejection::OfOperation { .. } => {
            internal(format!("a rejected operation without its index: {rejection:?}"))
        }
    }
}

fn quota_exceeded(path: ZnodePath, quota: QuotaKind, limit: u64, used: u64) -> HttpError {
    let detail = format!("{quota} of the subtree '{path}': at most {limit}, and {used} are in use");
    let hint = format!(
        "delete znodes below it, or ask an administrator: holdfast tree quota set PATH --{quota} LIMIT"
    );
    let bound = Some(format!("{quota} of the subtree").into());
    let facts = Facts { path: Some(path), bound, limit: Some(limit), ..Facts::default() };
    Box::new(Problem::new(ErrorCode::QuotaExceeded, detail).hint(hint).facts(facts))
}

fn bad_acl(path: ZnodePath) -> HttpError {
    let detail = "the access list is empty, or has an invalid entry".to_owned();
    let hint = "write scheme:id:perms with world:anyone, digest:name:hash, ip:address[/bits], or auth: for yourself (curl -u name:password)";
    let mut problem = about(path, ErrorCode::InvalidArgument, detail, hint);
    problem.facts.parameter = Some("acl".to_owned());
    problem
}

fn forbidden(path: ZnodePath, needed: Perms, context: &ErrorContext<'_>) -> HttpError {
    let what = match needed {
        Perms::READ => "read it",
        Perms::WRITE => "write it",
        Perms::CREATE => "create below it",
        Perms::DELETE => "delete below it",
        _ => "read or change its access list",
    };
    let detail = format!("the access list of '{path}' does not allow this caller to {what}");
    let hint = match context.lock {
        Some(_) => {
            "a call for a lock is world:anyone: give it the permission with PUT /v1/tree/locks/NAME?acl, or use a ZooKeeper client"
        }
        None => "send the credentials of an identity in the list: curl -u name:password",
    };
    let mut problem = about(path, ErrorCode::Forbidden, detail, hint);
    problem.facts.needed = Some(needed.to_string());
    problem
}

fn about(path: ZnodePath, code: ErrorCode, detail: String, hint: &'static str) -> HttpError {
    let facts = Facts { path: Some(path), ..Facts::default() };
    Box::new(Problem::new(code, detail).hint(hint).facts(facts))
}
