//! Rejections of changes and reads of the tree. Every problem names the node.

use holdfast_api::{ErrorCode, Facts, Problem};
use holdfast_types::{Perms, TreeRejection, ZnodePath};

use super::{HttpError, internal};

pub(super) fn of_rejection(rejection: TreeRejection) -> HttpError {
    match rejection {
        TreeRejection::NoZnode { path } => {
            let detail = format!("there is no node '{path}'");
            let hint =
                "a PUT without If-Match creates it; with ?parents its missing directories, too";
            about(path, ErrorCode::NotFound, detail, hint)
        }
        TreeRejection::ZnodeExists { path } => {
            let detail = format!("there is a node '{path}' already");
            let hint = "a plain PUT, without a kind or a list, replaces its data";
            about(path, ErrorCode::NodeExists, detail, hint)
        }
        TreeRejection::NotEmpty { path } => {
            let detail = format!("'{path}' has children");
            about(path, ErrorCode::NotEmpty, detail, "add ?recursive to delete them with it")
        }
        TreeRejection::BadVersion { path, actual } => {
            let detail = format!("'{path}' has version {actual}");
            let hint = "read it again, and send the change with that version";
            let mut problem = about(path, ErrorCode::VersionMismatch, detail, hint);
            problem.facts.version = u64::try_from(actual).ok();
            problem
        }
        TreeRejection::NoChildrenForEphemerals { path } => {
            let detail = format!("'{path}' is an ephemeral node, or a place in a queue");
            about(path, ErrorCode::EphemeralParent, detail, "choose a name that is not below it")
        }
        TreeRejection::Reserved { path } => {
            let detail = format!("'{path}' is reserved");
            about(path, ErrorCode::BadName, detail, "choose another name")
        }
        TreeRejection::NotAllowed { path, needed } => forbidden(path, needed),
        TreeRejection::BadAcl { path } => bad_acl(path),
        TreeRejection::QuotaExceeded { path, limit } => quota_exceeded(path, limit),
        TreeRejection::OfOperation { .. } => {
            internal(format!("a rejected operation without its index: {rejection:?}"))
        }
    }
}

fn quota_exceeded(path: ZnodePath, limit: u64) -> HttpError {
    let detail = format!("the quota of '{path}' is reached");
    let hint = "delete something below it, or raise its quota";
    let mut problem = about(path, ErrorCode::QuotaExceeded, detail, hint);
    problem.facts.limit = Some(limit);
    problem
}

fn bad_acl(path: ZnodePath) -> HttpError {
    let detail = "the access list is empty, or has an invalid entry".to_owned();
    let hint = "write scheme:id:perms with world:anyone, digest:name:hash, ip:address[/bits], or auth: for yourself (curl -u name:password)";
    let mut problem = about(path, ErrorCode::InvalidArgument, detail, hint);
    problem.facts.parameter = Some("acl".to_owned());
    problem
}

fn forbidden(path: ZnodePath, needed: Perms) -> HttpError {
    let what = match needed {
        Perms::READ => "read it",
        Perms::WRITE => "write it",
        Perms::CREATE => "create below it",
        Perms::DELETE => "delete below it",
        _ => "see or change the list",
    };
    let detail = format!("the access list of '{path}' does not let this caller {what}");
    let hint = "send an identity that it names: curl -u name:password";
    let mut problem = about(path, ErrorCode::Forbidden, detail, hint);
    problem.facts.needed = Some(needed.to_string());
    problem
}

fn about(path: ZnodePath, code: ErrorCode, detail: String, hint: &'static str) -> HttpError {
    let facts = Facts { path: Some(path), ..Facts::default() };
    Box::new(Problem::new(code, detail).hint(hint).facts(facts))
}
