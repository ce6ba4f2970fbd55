//! Denied calls, and rejected changes of subjects, roles and access tokens.

use holdfast_api::{ErrorCode, Facts, Problem};
use holdfast_types::{AuthRejection, Forbidden};

use super::{HttpError, unexpected};

pub(super) fn of_rejection(rejection: AuthRejection) -> HttpError {
    match rejection {
        AuthRejection::NoCredential => {
            let hint = "send an access token (curl -H @FILE, or --access-token-file), or a client certificate";
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
        AuthRejection::OtherSubject { session } => {
            let detail = format!("the session '{session}' belongs to another subject");
            let hint = "use another session id";
            let facts = Facts { session: Some(session), ..Facts::default() };
            Box::new(Problem::new(ErrorCode::Forbidden, detail).hint(hint).facts(facts))
        }
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
        AuthRejection::NoSubject { subject } => about(
            ErrorCode::NotFound,
            format!("there is no subject '{subject}'"),
            format!("create it: holdfast auth subject set {subject} --role ROLE"),
        ),
        AuthRejection::NoRole { role } => about(
            ErrorCode::NotFound,
            format!("there is no role '{role}'"),
            format!("create it: holdfast auth role set {role} --permission 'KIND VERB PATTERN'"),
        ),
        AuthRejection::NoToken { token } => about(
            ErrorCode::NotFound,
            format!("there is no access token '{token}'"),
            "list them: holdfast auth token ls",
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
        AuthRejection::TokenExists { .. } => unexpected(&rejection.into()),
    }
}

fn of_forbidden(forbidden: &Forbidden) -> HttpError {
    let (needed, subject) = (forbidden.needed(), forbidden.subject.clone());
    let detail = format!("'{subject}' has no permission: {needed}");
    let hint =
        format!("an administrator allows it: holdfast auth role set ROLE --permission '{needed}'");
    let facts = Facts { needed: Some(needed), subject: Some(subject), ..Facts::default() };
    Box::new(Problem::new(ErrorCode::Forbidden, detail).hint(hint).facts(facts))
}

fn about(
    code: ErrorCode,
    detail: impl Into<std::borrow::Cow<'static, str>>,
    hint: impl Into<std::borrow::Cow<'static, str>>,
) -> HttpError {
    Box::new(Problem::new(code, detail).hint(hint))
}
