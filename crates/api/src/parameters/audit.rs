//! Parameters of the audit trail.

use std::time::Duration;

use holdfast_types::{AuditAction, FencingToken, SubjectName, ZnodePath};

use super::WAIT_MAX;
use crate::param::{Absent, Param};

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
