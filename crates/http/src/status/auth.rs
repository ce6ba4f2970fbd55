//! Denied calls, and rejected changes of subjects, roles and access tokens.

use holdfast_api::{ErrorCode, Facts, Problem};
use holdfast_types::{
    AuthRejection, Forbidden, LockName, NamespaceItems, NamespaceName, OtherNamespace, RoleName,
    SessionName, SessionRejection, SubjectName,
};

use super::{HttpError, unexpected};

pub(super) fn of_rejection(rejection: AuthRejection) -> HttpError {
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
    let hint = "use another session id";
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
