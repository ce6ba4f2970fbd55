//! The right to open sessions, and the quotas of subjects.

use holdfast_types::{
    Actor, AuthChange, AuthRejection, Command, HandOver, Labels, Outcome, Owner, QuotaFull,
    QuotaKind, QuotaOwner, Rejection, Reply, SessionName,
};

use super::auth::{
    ADMIN, CI, WEB, acquire, apply, change, forbidden, guarded, rejected, release, set_quotas,
    set_role, set_subject, subject,
};
use super::script_commands::{lock_name, numbered, open, session_name};
use crate::Machine;

fn open_session(session: &str) -> Command {
    Command::OpenSession { open: open(session), attempt: None }
}

fn full(outcome: Outcome) -> Option<(String, QuotaKind, u64, u64)> {
    match outcome {
        Err(Rejection::QuotaFull(full)) => {
            let QuotaFull { owner: QuotaOwner::Subject(subject), quota, limit, used } = *full
            else {
                panic!("{full:?}")
            };
            Some((subject.to_string(), quota, limit, used))
        }
        Ok(_) => None,
        Err(other) => panic!("{other:?}"),
    }
}

fn used(machine: &Machine, name: &str, quota: QuotaKind) -> u64 {
    machine.subject_used(&subject(name), quota).unwrap()
}

#[test]
fn a_subject_without_a_right_that_needs_a_session_opens_none() {
    let mut machine = guarded();
    for (permission, opens) in [
        ("audit read", false),
        ("metrics read", false),
        ("lock read *", false),
        ("lock check *", false),
        ("session close *", false),
        ("session open", true),
        ("lock acquire other", true),
        ("recipe use other", true),
        ("tree read /other", true),
        ("tree write /other", true),
    ] {
        change(&mut machine, ADMIN, set_role("one", &[permission])).unwrap();
        change(&mut machine, ADMIN, set_subject("web", &["one"], &[])).unwrap();
        let outcome = apply(&mut machine, WEB, open_session("w"));
        assert_eq!(outcome.is_ok(), opens, "{permission}: {outcome:?}");
        assert_eq!(forbidden(&outcome).is_none(), opens, "{permission}");
        // A session of a connection becomes the subject's only with the same right.
        let id = apply(&mut machine, Actor::Node, open_session("of-connection"));
        let Ok(Reply::SessionOpened(opened)) = id else { panic!("{id:?}") };
        let claimed = apply(&mut machine, WEB, Command::ClaimSession { session: opened.id });
        assert_eq!(claimed.is_ok(), opens, "{permission}: {claimed:?}");
        for session in ["w", "of-connection"] {
            let close = Command::CloseSession {
                session: session_name(session),
                attachment: None,
                incarnation: None,
            };
            let _closed = apply(&mut machine, ADMIN, close);
        }
    }
}

#[test]
fn a_session_above_the_quota_of_its_subject_is_rejected() {
    let mut machine = guarded();
    change(&mut machine, ADMIN, set_quotas(Some("ci"), &[(QuotaKind::Sessions, 2)])).unwrap();
    apply(&mut machine, CI, open_session("a")).unwrap();
    apply(&mut machine, CI, acquire("deploy/x", "b")).unwrap();
    for command in [open_session("c"), acquire("deploy/y", "c")] {
        let rejected = full(apply(&mut machine, CI, command));
        assert_eq!(rejected, Some(("ci".to_owned(), QuotaKind::Sessions, 2, 2)));
    }
    assert!(machine.session_id(&session_name("c")).is_none());
    // Renewals pass, and so do others. A certificate proves the same subject.
    apply(&mut machine, CI, open_session("a")).unwrap();
    apply(&mut machine, CI, Command::RenewSession { session: session_name("a") }).unwrap();
    apply(&mut machine, WEB, open_session("w")).unwrap();
    let certificate = Actor::Subject(subject("ci"));
    assert!(full(apply(&mut machine, certificate, open_session("c"))).is_some());
    // The end of a session makes room.
    let close =
        Command::CloseSession { session: session_name("a"), attachment: None, incarnation: None };
    apply(&mut machine, CI, close).unwrap();
    apply(&mut machine, CI, open_session("c")).unwrap();
    assert_eq!(used(&machine, "ci", QuotaKind::Sessions), 2);
}

#[test]
fn a_claimed_session_counts_for_its_subject() {
    let mut machine = guarded();
    change(&mut machine, ADMIN, set_quotas(Some("ci"), &[(QuotaKind::Sessions, 1)])).unwrap();
    let claim = |machine: &mut Machine, name: &str| {
        let opened = apply(machine, Actor::Node, open_session(name));
        let Ok(Reply::SessionOpened(opened)) = opened else { panic!("{opened:?}") };
        apply(machine, CI, Command::ClaimSession { session: opened.id })
    };
    claim(&mut machine, "zk-1").unwrap();
    let rejected = full(claim(&mut machine, "zk-2"));
    assert_eq!(rejected, Some(("ci".to_owned(), QuotaKind::Sessions, 1, 1)));
    assert_eq!(machine.subject_of_session(&session_name("zk-2")), None);
}

#[test]
fn holds_and_waiters_count_for_the_subject_of_their_session() {
    let mut machine = guarded();
    change(&mut machine, ADMIN, set_quotas(None, &[(QuotaKind::QueueEntries, 2)])).unwrap();
    apply(&mut machine, CI, acquire("deploy/a", "s1")).unwrap();
    apply(&mut machine, CI, acquire("deploy/a", "s2")).unwrap();
    let rejected = full(apply(&mut machine, CI, acquire("deploy/b", "s3")));
    assert_eq!(rejected, Some(("ci".to_owned(), QuotaKind::QueueEntries, 2, 2)));
    assert!(machine.session_id(&session_name("s3")).is_none(), "the session was not opened");
    apply(&mut machine, CI, release("deploy/a", "s1")).unwrap();
    apply(&mut machine, CI, acquire("deploy/b", "s1")).unwrap();
    // A quota of its own precedes the default.
    let own = set_quotas(Some("ci"), &[(QuotaKind::QueueEntries, 3)]);
    change(&mut machine, ADMIN, own).unwrap();
    apply(&mut machine, CI, acquire("deploy/c", "s1")).unwrap();
    assert!(full(apply(&mut machine, CI, acquire("deploy/d", "s1"))).is_some());
    assert_eq!(used(&machine, "ci", QuotaKind::QueueEntries), 3);
}

#[test]
fn labels_of_sessions_count_as_bytes_of_the_subject() {
    let mut machine = guarded();
    change(&mut machine, ADMIN, set_quotas(Some("ci"), &[(QuotaKind::Bytes, 1_000)])).unwrap();
    let label = |session: &str, bytes: usize| {
        let labels = Labels::new([("k".to_owned(), "v".repeat(bytes))].into()).unwrap();
        let open = holdfast_types::OpenSession { labels, ..open(session) };
        Command::OpenSession { open, attempt: None }
    };
    for session in ["a", "b", "c", "d"] {
        apply(&mut machine, CI, label(session, 200)).unwrap();
    }
    assert_eq!(used(&machine, "ci", QuotaKind::Bytes), 4 * (1 + 1 + 200));
    let rejected = full(apply(&mut machine, CI, label("e", 200)));
    assert_eq!(rejected, Some(("ci".to_owned(), QuotaKind::Bytes, 1_000, 808)));
    // A renewal with fewer bytes passes.
    apply(&mut machine, CI, label("a", 10)).unwrap();
    apply(&mut machine, CI, label("e", 200)).unwrap();
}

#[test]
fn remembered_replies_count_as_bytes_of_the_subject() {
    let mut machine = guarded();
    apply(&mut machine, CI, open_session("a")).unwrap();
    let limit = used(&machine, "ci", QuotaKind::Bytes);
    change(&mut machine, ADMIN, set_quotas(Some("ci"), &[(QuotaKind::Bytes, limit)])).unwrap();
    let numbered = acquire("deploy/a", "a").once(Some(numbered("a", 1)));
    let rejected = full(apply(&mut machine, CI, numbered));
    assert_eq!(rejected, Some(("ci".to_owned(), QuotaKind::Bytes, limit, limit)));
}

#[test]
fn a_full_quota_rejects_no_numbered_release() {
    let mut machine = guarded();
    apply(&mut machine, CI, acquire("deploy/a", "a")).unwrap();
    change(&mut machine, ADMIN, set_quotas(Some("ci"), &[(QuotaKind::Bytes, 1)])).unwrap();
    let numbered = release("deploy/a", "a").once(Some(numbered("a", 1)));
    assert!(matches!(apply(&mut machine, CI, numbered), Ok(Reply::Released(_))));
}

#[test]
fn quotas_stay_with_their_subject_until_it_is_deleted() {
    let mut machine = guarded();
    let limit = |machine: &Machine| machine.subject_limit(&subject("ci"), QuotaKind::Sessions);
    let default = QuotaKind::Sessions.default_of_subject();
    assert_eq!(limit(&machine), default);
    change(&mut machine, ADMIN, set_quotas(Some("ci"), &[(QuotaKind::Sessions, 3)])).unwrap();
    change(&mut machine, ADMIN, set_subject("ci", &["web"], &[])).unwrap();
    assert_eq!(limit(&machine), Some(3));
    change(&mut machine, ADMIN, AuthChange::DeleteSubject { subject: subject("ci") }).unwrap();
    change(&mut machine, ADMIN, set_subject("ci", &[], &[])).unwrap();
    assert_eq!(limit(&machine), default);
    for wrong in [
        set_quotas(Some("nobody"), &[(QuotaKind::Sessions, 3)]),
        set_quotas(Some("ci"), &[(QuotaKind::Locks, 3)]),
        set_quotas(None, &[(QuotaKind::CallsPerSecond, 0)]),
    ] {
        assert!(change(&mut machine, ADMIN, wrong.clone()).is_err(), "{wrong:?}");
    }
    assert!(forbidden(&change(&mut machine, WEB, set_quotas(None, &[]))).is_some());
}

/// A caller without a credential is no subject.
#[test]
fn a_caller_without_a_credential_has_no_quota() {
    let mut machine = Machine::new();
    for n in 0..20 {
        let session = SessionName::new(format!("s{n}")).unwrap();
        apply(&mut machine, Actor::Anonymous, open_session(session.as_str())).unwrap();
    }
    assert_eq!(used(&machine, "ci", QuotaKind::Sessions), 0);
}

/// S-M4.
#[test]
fn only_a_session_whose_subject_may_acquire_the_lock_receives_it() {
    let mut machine = guarded();
    apply(&mut machine, CI, acquire("deploy/a", "c")).unwrap();
    apply(&mut machine, CI, open_session("c2")).unwrap();
    apply(&mut machine, WEB, open_session("w")).unwrap();
    apply(&mut machine, Actor::Node, open_session("nobody")).unwrap();
    let hand_over = |to: &str| {
        Command::HandOver(HandOver {
            lock: lock_name("deploy/a"),
            from: (session_name("c"), Owner::unnamed()),
            to: (session_name(to), Owner::unnamed()),
            token: None,
        })
    };
    for to in ["w", "nobody"] {
        let outcome = apply(&mut machine, CI, hand_over(to));
        let session = session_name(to);
        let expected = AuthRejection::Receiver { session, lock: lock_name("deploy/a") };
        assert_eq!(rejected(&outcome), Some(&expected));
    }
    apply(&mut machine, CI, hand_over("c2")).unwrap();
    // The quota of the receiver holds too.
    change(&mut machine, ADMIN, set_subject("web", &["deploy"], &[])).unwrap();
    change(&mut machine, ADMIN, set_quotas(Some("web"), &[(QuotaKind::QueueEntries, 0)])).unwrap();
    let back = Command::HandOver(HandOver {
        lock: lock_name("deploy/a"),
        from: (session_name("c2"), Owner::unnamed()),
        to: (session_name("w"), Owner::unnamed()),
        token: None,
    });
    let rejected = full(apply(&mut machine, CI, back));
    assert_eq!(rejected, Some(("web".to_owned(), QuotaKind::QueueEntries, 0, 0)));
}
