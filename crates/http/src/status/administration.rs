//! Errors of what administrators set: permissions, roles and access tokens; quotas of namespaces and subjects; members and the
//! feature level.

use std::num::NonZeroU32;
use std::time::Duration;

use holdfast_api::{ErrorCode, Facts, Problem};
use holdfast_types::{
    AuthRejection, FeatureLevel, Forbidden, LockName, Member, MembershipRejection, NamespaceItems,
    NamespaceName, OtherNamespace, QuotaFull, QuotaKind, QuotaOwner, RoleName, SessionName,
    SessionRejection, SubjectName,
};

use super::{HttpError, unexpected};

pub(super) fn of_auth_rejection(rejection: AuthRejection) -> HttpError {
    match rejection {
        AuthRejection::NoCredential => {
            let hint = "send an access token: curl -H @FILE, or holdfast --access-token-file FILE, or HOLDFAST_ACCESS_TOKEN; \
                        or a client certificate";
            about(ErrorCode::Unauthenticated, "the call needs a credential", hint)
        }
        AuthRejection::NoAdministrator => about(
            ErrorCode::Unauthenticated,
            "this cluster has no administrator yet",
            "run 'holdfast auth bootstrap' on a node",
        ),
        AuthRejection::UnknownToken => about(
            ErrorCode::Unauthenticated,
            "the access token is unknown, or its secret is wrong",
            "an administrator creates one: holdfast auth token new SUBJECT",
        ),
        AuthRejection::TokenExpired => about(
            ErrorCode::TokenExpired,
            "the access token has expired",
            "an administrator creates a new one: holdfast auth token new SUBJECT",
        ),
        AuthRejection::Forbidden(forbidden) => of_forbidden(&forbidden),
        AuthRejection::OtherSubject { session } => of_other_subject(session),
        AuthRejection::HiddenSession { session } => {
            super::of_session_rejection(SessionRejection::Unknown { session })
        }
        AuthRejection::Receiver { session, lock } => of_receiver(session, &lock),
        AuthRejection::HasAdministrator => about(
            ErrorCode::HasAdministrator,
            "the first one is added only once",
            "ask an administrator, or run 'holdfast auth recover' on a node",
        ),
        AuthRejection::LastAdministrator => about(
            ErrorCode::LastAdministrator,
            "no usable administrator would be left",
            "give the role admin to another subject with an access token or a certificate first",
        ),
        AuthRejection::BuiltInRole { role } => about(
            ErrorCode::InvalidArgument,
            format!("holdfast defines the role '{role}'"),
            "create a role with another name",
        ),
        AuthRejection::CertificateTaken { certificate, subject } => about(
            ErrorCode::InvalidArgument,
            format!("the certificate '{}' proves '{subject}'", certificate.as_str()),
            "one certificate proves one subject: remove it from the other one first",
        ),
        AuthRejection::OtherNamespace(outside) => of_outside(*outside),
        AuthRejection::NamespaceInUse { namespace, used } => in_use(&namespace, &used),
        AuthRejection::TokenLifetime { max_ms } => about(
            ErrorCode::InvalidArgument,
            format!("an access token lives at most {} s", max_ms / 1_000),
            "send a shorter ttl; holdfast auth token-policy shows and sets the maximum",
        ),
        AuthRejection::NoSubject { subject } => no_subject(&subject),
        AuthRejection::NoRole { role } => no_role(&role),
        AuthRejection::NoToken { token } => {
            missing("access token", &token, "list them: holdfast auth token ls")
        }
        AuthRejection::NoNamespace { namespace } => no_namespace(&namespace),
        AuthRejection::NotDenied { certificate } => {
            missing("denied certificate", &certificate, "list them: holdfast auth certificate ls")
        }
        AuthRejection::TokenExists { .. } => unexpected(&rejection.into()),
    }
}

fn no_subject(subject: &SubjectName) -> HttpError {
    let hint = format!("create it: holdfast auth subject set {subject} --role ROLE");
    missing("subject", subject, hint)
}

fn no_role(role: &RoleName) -> HttpError {
    let hint = format!("create it: holdfast auth role set {role} --permission 'KIND VERB PATTERN'");
    missing("role", role, hint)
}

fn no_namespace(namespace: &NamespaceName) -> HttpError {
    let hint = format!("register it: holdfast namespace set {namespace}");
    missing("namespace", namespace, hint)
}

fn of_forbidden(forbidden: &Forbidden) -> HttpError {
    let (needed, subject) = (forbidden.needed(), forbidden.subject.clone());
    let detail = format!("'{subject}' has no permission: {needed}");
    let hint =
        format!("an administrator allows it: holdfast auth role set ROLE --permission '{needed}'");
    let facts = Facts { needed: Some(needed), subject: Some(subject), ..Facts::default() };
    Box::new(Problem::new(ErrorCode::Forbidden, detail).hint(hint).facts(facts))
}

fn of_other_subject(session: SessionName) -> HttpError {
    let detail = format!("the session '{session}' belongs to another subject");
    let facts = Facts { session: Some(session), ..Facts::default() };
    let hint = "use another session id; an operator closes this session with 'force' and 'reason'";
    Box::new(Problem::new(ErrorCode::Forbidden, detail).hint(hint).facts(facts))
}

fn of_receiver(session: SessionName, lock: &LockName) -> HttpError {
    let needed = format!("lock acquire {lock}");
    let detail = format!("the subject of the session '{session}' has no permission: {needed}");
    let facts = Facts { session: Some(session), needed: Some(needed), ..Facts::default() };
    let hint =
        "transfer the lock to a session of a subject, of the same namespace, that may acquire it";
    Box::new(Problem::new(ErrorCode::Forbidden, detail).hint(hint).facts(facts))
}

fn of_outside(outside: OtherNamespace) -> HttpError {
    let OtherNamespace { subject, namespace, right, name } = outside;
    let belongs = format!("'{subject}' belongs to the namespace '{namespace}'");
    let (needed, detail, hint) = if name.is_empty() {
        let detail = format!("{belongs}: {right} is for subjects of no namespace");
        (right.to_string(), detail, "ask an administrator of the cluster".to_owned())
    } else {
        let needed = format!("{right} {name}");
        let detail = format!("{belongs}: {needed} lies outside");
        (needed, detail, format!("use a name below {namespace}/, or a subject of no namespace"))
    };
    let facts = Facts { needed: Some(needed), subject: Some(subject), ..Facts::default() };
    Box::new(Problem::new(ErrorCode::Forbidden, detail).hint(hint).facts(facts))
}

fn in_use(namespace: &NamespaceName, used: &NamespaceItems) -> HttpError {
    let NamespaceItems { subjects, sessions, znodes, recipes } = used;
    let detail = format!(
        "the namespace '{namespace}' has {subjects} subjects, {sessions} sessions, {znodes} znodes and {recipes} recipes"
    );
    let hint = "delete them first; empty locks disappear after a short time";
    about(ErrorCode::NamespaceInUse, detail, hint)
}

fn missing(
    what: &str,
    name: &dyn std::fmt::Display,
    hint: impl Into<std::borrow::Cow<'static, str>>,
) -> HttpError {
    about(ErrorCode::NotFound, format!("there is no {what} '{name}'"), hint)
}

fn about(
    code: ErrorCode,
    detail: impl Into<std::borrow::Cow<'static, str>>,
    hint: impl Into<std::borrow::Cow<'static, str>>,
) -> HttpError {
    Box::new(Problem::new(code, detail).hint(hint))
}

/// The owner makes too many calls.
pub(super) fn rate_limited(
    owner: &QuotaOwner,
    limit: NonZeroU32,
    retry_after: Duration,
) -> HttpError {
    let detail = format!("{owner} makes more than {limit} calls per second");
    let facts = Facts {
        retry_after_ms: Some(holdfast_types::millis(retry_after).max(1)),
        bound: Some(bound_of(QuotaKind::CallsPerSecond, owner).into()),
        limit: Some(limit.get().into()),
        ..Facts::default()
    };
    let hint = hint_of_quota(QuotaKind::CallsPerSecond, owner);
    Box::new(Problem::new(ErrorCode::RateLimited, detail).hint(hint).facts(facts))
}

/// A quota has no room.
pub(super) fn full(code: ErrorCode, full: &QuotaFull) -> HttpError {
    let QuotaFull { owner, quota, limit, used } = full;
    let detail = format!("{quota} of {owner}: at most {limit}, and {used} are in use");
    let bound = Some(bound_of(*quota, owner).into());
    let facts = Facts { bound, limit: Some(*limit), ..Facts::default() };
    let hint = hint_of_quota(*quota, owner);
    Box::new(Problem::new(code, detail).hint(hint).facts(facts))
}

fn bound_of(quota: QuotaKind, owner: &QuotaOwner) -> String {
    let owner = match owner {
        QuotaOwner::Namespace(_) => "namespace",
        QuotaOwner::Subject(_) => "subject",
    };
    format!("{quota} of the {owner}")
}

fn hint_of_quota(quota: QuotaKind, owner: &QuotaOwner) -> String {
    let command = match owner {
        QuotaOwner::Namespace(namespace) => format!("holdfast namespace set {namespace}"),
        QuotaOwner::Subject(subject) => {
            format!("holdfast auth subject set {subject} --quota {quota}=LIMIT")
        }
    };
    let first = match quota {
        QuotaKind::CallsPerSecond => "call less often",
        QuotaKind::Streams | QuotaKind::Connections => "close some, or use another node",
        QuotaKind::Locks
        | QuotaKind::QueueEntries
        | QuotaKind::WaitersPerLock
        | QuotaKind::Sessions
        | QuotaKind::Znodes
        | QuotaKind::Bytes
        | QuotaKind::Recipes => "release or delete something",
    };
    format!("{first}, or ask an administrator: {command}")
}

pub(super) fn of_membership_rejection(rejection: MembershipRejection) -> HttpError {
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
    let hint = if can_be_forced {
        "add ?force"
    } else {
        "make the change possible as the detail says, or choose another one"
    };
    Box::new(problem.hint(hint))
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
