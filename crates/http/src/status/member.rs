//! Rejected changes of the members and of the feature level.

use holdfast_api::{ErrorCode, Problem};
use holdfast_types::{FeatureLevel, Member, MembershipRejection};

use super::HttpError;

pub(super) fn of_rejection(rejection: MembershipRejection) -> HttpError {
    use ErrorCode::{MembershipInProgress, MembershipUnsafe, NotFound};
    let (code, detail, hint) = match rejection {
        MembershipRejection::InProgress { node } => (
            MembershipInProgress,
            format!("the change of node {node} is unfinished"),
            format!("wait for it, or end it: holdfast member remove {node} --reason TEXT"),
        ),
        MembershipRejection::NoMember { node } => (
            NotFound,
            format!("no member has the id {node}"),
            "list the members: holdfast member ls".to_owned(),
        ),
        MembershipRejection::Retired { node } => (
            NotFound,
            format!("node {node} has left the cluster, and its id is never used again"),
            "list the members: holdfast member ls".to_owned(),
        ),
        MembershipRejection::AddressInUse { address, node } => (
            MembershipUnsafe,
            format!("node {node} has the address {address}"),
            format!("use another address, or replace the member: holdfast member replace {node}"),
        ),
        MembershipRejection::LastVoter => (
            MembershipUnsafe,
            "the cluster would have no voter".to_owned(),
            "add another voter first: holdfast member add".to_owned(),
        ),
        MembershipRejection::TooMany { voters } => {
            let (what, most) = if voters {
                ("voters", Member::VOTERS_MAX)
            } else {
                ("members", Member::COUNT_MAX)
            };
            let detail = format!("a cluster has at most {most} {what}");
            (MembershipUnsafe, detail, "remove a member first: holdfast member remove".to_owned())
        }
        MembershipRejection::HasRole { node, role } => (
            MembershipUnsafe,
            format!("node {node} is a {} already", role.as_str()),
            "list the members: holdfast member ls".to_owned(),
        ),
        MembershipRejection::UnequalRoles { replaces, role } => (
            MembershipUnsafe,
            format!("node {replaces} is a {0}, and only a {0} replaces it", role.as_str()),
            format!("to remove it without a successor: holdfast member remove {replaces}"),
        ),
        MembershipRejection::NotJoined { node } => (
            MembershipUnsafe,
            format!("node {node} has not joined yet"),
            "start it with its join token first, or remove it".to_owned(),
        ),
    };
    Box::new(Problem::new(code, detail).hint(hint))
}

pub(super) fn unsafe_change(detail: String, can_be_forced: bool) -> HttpError {
    let problem = Problem::new(ErrorCode::MembershipUnsafe, detail);
    Box::new(if can_be_forced { problem.hint("add ?force") } else { problem })
}

pub(super) fn level_too_low(needed: FeatureLevel) -> HttpError {
    let detail = format!("the call needs the feature level {needed}");
    let hint =
        format!("when every node runs a program that knows it: holdfast cluster level {needed}");
    Box::new(Problem::new(ErrorCode::LevelTooLow, detail).hint(hint))
}

pub(super) fn not_one_level(present: FeatureLevel) -> HttpError {
    let detail = format!("the cluster has the feature level {present}, and it changes by one");
    level_not_ready(detail)
}

pub(super) fn level_not_ready(detail: String) -> HttpError {
    let hint = "holdfast cluster level shows the programs of all nodes";
    Box::new(Problem::new(ErrorCode::LevelNotReady, detail).hint(hint))
}
