//! Parameters of subjects, roles, access tokens and the audit trail.

use std::time::Duration;

use holdfast_types::{
    AuditAction, AuthMode, CertificateName, FencingToken, NamePattern, Reason, RoleName,
    SubjectName, ZnodePath,
};

use super::WAIT_MAX;
use crate::param::{Absent, Form, Param};

/// The longest lifetime of an access token.
pub const TOKEN_TTL_MAX: Duration = Duration::from_hours(365 * 24);
/// The longest time in which two access tokens of a rotation are valid.
pub const GRACE_MAX: Duration = Duration::from_hours(30 * 24);

const MODES: &[&str] = &[AuthMode::Off.as_str(), AuthMode::Shadow.as_str(), AuthMode::On.as_str()];

pub const MODE: Param = Param::word(
    "mode",
    MODES,
    "off: every call is executed. shadow: every call is executed, and the node lists the calls that on would refuse. \
     on: calls without a permission are refused",
)
.needed("shadow");
pub const FIRST_MODE: Param = Param::word(
    "mode",
    MODES,
    "The mode from now on; by default shadow while sessions without a credential are in use, otherwise on",
);
pub const ADMINISTRATOR: Param = Param::path(
    "subject",
    SubjectName::MAX_LEN,
    "The administrator, without white space, ':' and '*'",
)
.absent(Absent::Word("admin"));
pub const SUBJECT: Param = Param::path(
    "subject",
    SubjectName::MAX_LEN,
    "The person or program that calls, without white space, ':' and '*'",
)
.needed("ci/deploy");
pub const AS: Param = Param::path(
    "as",
    SubjectName::MAX_LEN,
    "The subject to ask about; by default the caller. Another subject needs the permission auth read",
);
pub const TOKEN_TTL: Param = Param::duration(
    "ttl",
    (Duration::from_secs(1), TOKEN_TTL_MAX),
    "The lifetime of the access token; by default that of the token policy",
)
.hint("send never for a token that lasts until it is deleted");
pub const NEW_TOKEN_TTL: Param = Param::duration(
    "ttl",
    (Duration::from_secs(1), TOKEN_TTL_MAX),
    "The lifetime of the new access token; by default that of the old one, or the maximum of the token policy if that is shorter",
)
.hint("send never for a token that lasts until it is deleted");
pub const NEVER: Param = Param::flag(
    "never",
    "Whether the access token lasts until it is deleted. Rejected if the token policy has a maximum",
);
pub const DEFAULT_TTL: Param = Param::duration(
    "default_ttl",
    (Duration::from_secs(1), TOKEN_TTL_MAX),
    "The lifetime of an access token whose creator names none; by default the maximum",
);
pub const MAX_TTL: Param = Param::duration(
    "max_ttl",
    (Duration::from_secs(1), TOKEN_TTL_MAX),
    "The longest lifetime of a new access token. Without it, tokens may last until they are deleted",
);
pub const GRACE: Param = Param::duration(
    "grace",
    (Duration::ZERO, GRACE_MAX),
    "How long the old access token stays valid",
)
.absent(Absent::Duration(Duration::from_hours(24)));
pub const DENY_REASON: Param =
    Param::bounded_text("reason", Reason::MAX_LEN, "The reason, for the list and the audit trail")
        .needed("stolen");
pub const CLOSE_SESSIONS: Param =
    Param::flag("sessions", "Whether to close the sessions of the subject as well");
pub const PERMISSIONS: Param = Param::of(
    "permission",
    Form::Texts { bytes_max: NamePattern::MAX_LEN + 32 },
    "KIND VERB PATTERN, such as 'lock acquire orders/*'; repeat the parameter for each permission, at most 64 times. In a body, the \
     field is a list",
);
pub const ROLES: Param = Param::of(
    "role",
    Form::Texts { bytes_max: RoleName::MAX_LEN },
    "A role of the subject; repeat the parameter for each role, at most 16 times. In a body, the field is a list",
);
pub const CERTIFICATES: Param = Param::of(
    "certificate",
    Form::Texts { bytes_max: CertificateName::MAX_LEN },
    "A URI or the subject (as 'CN=ci,O=prod') of a client certificate that proves the subject; repeat the parameter for each one, \
     at most 8 times. In a body, the field is a list",
);
pub const ASKED_PERMISSION: Param =
    Param::of("permission", Form::Permission, "KIND VERB NAME, such as 'lock acquire orders'")
        .needed("lock%20acquire%20orders");

const ACTIONS: &[&str] = &{
    let mut words = [""; AuditAction::ALL.len()];
    let mut at = 0;
    while at < words.len() {
        words[at] = AuditAction::ALL[at].as_str();
        at += 1;
    }
    words
};

pub const AUDIT_AFTER: Param =
    Param::number("after", (0, FencingToken::END - 1), "Only records with a greater number")
        .absent(Absent::Number(0))
        .hint("send the \"next_after\" of a response");
pub const AUDIT_WAIT: Param = Param::duration(
    "wait",
    (Duration::ZERO, WAIT_MAX),
    "The maximum wait for a record; the call returns at the first one",
)
.absent(Absent::Duration(Duration::ZERO))
.hint("to wait longer, send the call again after the wait");
pub const AUDIT_SUBJECT: Param =
    Param::path("subject", SubjectName::MAX_LEN, "Only the changes of this subject");
pub const AUDIT_ACTION: Param = Param::word("action", ACTIONS, "Only this action");
pub const AUDIT_TARGET: Param = Param::bounded_text(
    "target",
    ZnodePath::MAX_LEN,
    "Only the changes of this lock, session, role, subject or access token",
);
