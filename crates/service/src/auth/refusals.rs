//! The calls that this node refused, or would refuse in the mode `on`: what to grant before the mode is switched on.
//!
//! Bound: [`KEPT_MAX`] different calls; the one that was last seen longest ago is dropped.

use std::collections::BTreeMap;

use holdfast_types::{AuthRejection, Forbidden, OtherNamespace, Stamp, SubjectName};
use parking_lot::Mutex;

/// Different calls that are kept.
const KEPT_MAX: usize = 1_000;

/// The refusals of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalCount {
    /// `None` for a caller without a valid credential.
    pub subject: Option<SubjectName>,
    /// The missing permission, or the problem of the credential.
    pub why: String,
    pub count: u64,
    /// The last one.
    pub last_at: Stamp,
}

type RefusalKey = (Option<SubjectName>, String);

#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<BTreeMap<RefusalKey, (u64, Stamp)>>);

impl Refusals {
    /// Records a refused call, without the secret of its credential.
    pub(crate) fn record(&self, rejection: &AuthRejection, caller: Option<SubjectName>, at: Stamp) {
        let key = key_of(rejection, caller);
        let mut kept = self.0.lock();
        let (count, last_at) = kept.entry(key).or_default();
        *count += 1;
        *last_at = at;
        if kept.len() > KEPT_MAX {
            let oldest = kept.iter().min_by_key(|(_, (_, last_at))| *last_at);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                kept.remove(&oldest);
            }
        }
    }

    /// The latest first.
    pub(crate) fn list(&self) -> Vec<RefusalCount> {
        let kept = self.0.lock();
        let refusal =
            |((subject, why), (count, last_at)): (&RefusalKey, &(u64, Stamp))| RefusalCount {
                subject: subject.clone(),
                why: why.clone(),
                count: *count,
                last_at: *last_at,
            };
        let mut all: Vec<_> = kept.iter().map(refusal).collect();
        all.sort_by_key(|refusal| std::cmp::Reverse(refusal.last_at));
        all
    }
}

/// The subject of a refused call, and the missing permission or the problem of its credential.
fn key_of(rejection: &AuthRejection, caller: Option<SubjectName>) -> RefusalKey {
    match rejection {
        AuthRejection::Forbidden(forbidden) => {
            let Forbidden { subject, .. } = &**forbidden;
            (Some(subject.clone()), forbidden.needed())
        }
        AuthRejection::NoCredential => (None, "no credential".to_owned()),
        AuthRejection::UnknownToken => (None, "unknown access token".to_owned()),
        AuthRejection::TokenExpired => (None, "expired access token".to_owned()),
        AuthRejection::OtherSubject { session } | AuthRejection::HiddenSession { session } => {
            (caller, format!("session {session} of another subject"))
        }
        AuthRejection::Receiver { session, lock } => {
            (caller, format!("transfer of {lock} to the session {session}"))
        }
        AuthRejection::OtherNamespace(outside) => {
            let OtherNamespace { subject, namespace, right, name } = &**outside;
            let why = format!("{right} {name} outside of the namespace {namespace}");
            (Some(subject.clone()), why)
        }
        AuthRejection::HasAdministrator
        | AuthRejection::LastAdministrator
        | AuthRejection::NoAdministrator
        | AuthRejection::NoSubject { .. }
        | AuthRejection::NoRole { .. }
        | AuthRejection::NoToken { .. }
        | AuthRejection::TokenExists { .. }
        | AuthRejection::BuiltInRole { .. }
        | AuthRejection::CertificateTaken { .. }
        | AuthRejection::NoNamespace { .. }
        | AuthRejection::NamespaceInUse { .. }
        | AuthRejection::TokenLifetime { .. }
        | AuthRejection::NotDenied { .. } => (caller, "change of the authorization".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuse(refusals: &Refusals, name: usize, at: u64) {
        let subject = SubjectName::new("ci").unwrap();
        let right = holdfast_types::Right::LockAcquire;
        let forbidden = Forbidden { subject, right, name: format!("l{name}") };
        refusals.record(&AuthRejection::Forbidden(forbidden.into()), None, Stamp(at));
    }

    #[test]
    fn equal_refusals_are_counted_and_the_oldest_are_dropped() {
        let refusals = Refusals::default();
        refuse(&refusals, 0, 1);
        refuse(&refusals, 0, 2);
        let list = refusals.list();
        assert_eq!((list.len(), list[0].count, list[0].last_at), (1, 2, Stamp(2)));
        assert_eq!(list[0].why, "lock acquire l0");
        for name in 1..=KEPT_MAX {
            refuse(&refusals, name, 10 + name as u64);
        }
        let list = refusals.list();
        assert_eq!(list.len(), KEPT_MAX);
        assert!(list.iter().all(|refusal| refusal.why != "lock acquire l0"));
        assert_eq!(list[0].why, format!("lock acquire l{KEPT_MAX}"));
    }
}
