//! Whose the name of a session is, and which session a subject means.

use holdfast_types::{
    AccessTokenId, Acquire, Actor, AuthRejection, Command, HandOver, OpenSession, Owner, Password,
    Rejection, SessionName, ShardChoice, ShardRequest,
};

use super::auth::{
    ADMIN, CI, WEB, acquire, add_token, apply, change, end, forbidden, guarded, rejected,
    set_namespace, set_role, set_subject,
};
use super::script_commands::{lock_name, open, session_name};
use crate::Machine;

fn open_session(name: &str) -> Command {
    Command::OpenSession { open: open(name), attempt: None }
}

fn close_session(name: &str) -> Command {
    let session = session_name(name);
    Command::CloseSession { session, attachment: None, incarnation: None }
}

#[track_caller]
fn check_names(machine: &Machine, actor: &Actor, expected: &[(&str, &str)]) {
    for (named, whole) in expected {
        let found = machine.whole_session_name(actor, session_name(named)).unwrap();
        assert_eq!(found.as_str(), *whole, "{actor:?} {named}");
    }
}

/// Only the subject itself opens, renews or ends a session with a whole name of it, whether or not the session exists.
#[test]
fn the_session_names_of_a_subject_are_its_own() {
    let mut machine = guarded();
    change(&mut machine, ADMIN, set_role("web", &["lock acquire *"])).unwrap();
    apply(&mut machine, CI, open_session("@ci:a")).unwrap();
    apply(&mut machine, WEB, open_session("@web:a")).unwrap();
    for name in
        ["@ci:a", "@ci:none", "@nobody:a", "@ci~1deploy:a", "@:a", "@web~:a", "durable!@ci:a"]
    {
        let session = session_name(name);
        let other = AuthRejection::OtherSubject { session: session.clone() };
        let hidden = AuthRejection::HiddenSession { session: session.clone() };
        if !session.is_durable() {
            for command in [open_session(name), acquire("web", name)] {
                assert_eq!(rejected(&apply(&mut machine, WEB, command)), Some(&other), "{name}");
            }
        }
        let rights = machine.rights_of(&WEB, machine.now).unwrap();
        assert_eq!(rights.check_session(&session), Err(hidden.clone()), "{name}");
        assert_eq!(rights.check_session_read(&session), Err(hidden), "{name}");
    }
    apply(&mut machine, ADMIN, end("@ci:a")).unwrap();
    apply(&mut machine, WEB, close_session("@web:a")).unwrap();
}

#[test]
fn a_subject_means_its_own_session_by_a_name_without_a_subject() {
    let mut machine = guarded();
    check_names(
        &machine,
        &CI,
        &[
            ("web1", "@ci:web1"),
            ("@ci:web1", "@ci:web1"),
            // The name of another subject stays, and is refused.
            ("@web:web1", "@web:web1"),
            ("durable!anna", "durable!@ci:anna"),
            ("durable!@web:anna", "durable!@web:anna"),
            ("host:80", "@ci:host:80"),
            ("@host", "@ci:@host"),
            ("@host:", "@ci:@host:"),
        ],
    );
    for actor in [Actor::Anonymous, Actor::Node, Actor::Token(AccessTokenId(77))] {
        check_names(&machine, &actor, &[("web1", "web1"), ("@ci:web1", "@ci:web1")]);
    }
    let long = session_name(&"x".repeat(SessionName::MAX_LEN));
    assert!(machine.whole_session_name(&CI, long.clone()).is_err());
    // A session that was opened without a credential keeps its name until the subject has one of its own.
    apply(&mut machine, Actor::Node, open_session("web1")).unwrap();
    apply(&mut machine, Actor::Node, open_session(long.as_str())).unwrap();
    check_names(&machine, &CI, &[("web1", "web1"), (long.as_str(), long.as_str())]);
    apply(&mut machine, Actor::Node, close_session("web1")).unwrap();
    // A late copy of a call before the close is not a call of a new session.
    check_names(&machine, &CI, &[("web1", "web1")]);
    apply(&mut machine, WEB, open_session("web1")).unwrap();
    check_names(&machine, &CI, &[("web1", "@ci:web1")]);
    // Operators name it as they see it.
    check_names(&machine, &WEB, &[("web1", "web1")]);
    check_names(&machine, &ADMIN, &[("web1", "web1")]);
    apply(&mut machine, WEB, close_session("web1")).unwrap();
    check_names(&machine, &CI, &[("web1", "@ci:web1")]);
    check_names(&machine, &ADMIN, &[("web1", "@root:web1")]);
    check_names(&machine, &WEB, &[("web1", "web1")]);
    apply(&mut machine, WEB, open_session("@web:web1")).unwrap();
    check_names(&machine, &WEB, &[("web1", "@web:web1")]);
}

/// The name of a connection's session has random digits, and every holder may transfer a lock to it.
#[test]
fn every_subject_names_the_session_of_a_connection() {
    let mut machine = guarded();
    for (name, actor) in [("zk-1", Actor::Node), ("zk-2", CI)] {
        let open = OpenSession { password: Some(Password([7; 16])), ..open(name) };
        apply(&mut machine, actor, Command::OpenSession { open, attempt: None }).unwrap();
    }
    for actor in [CI, WEB, ADMIN] {
        check_names(&machine, &actor, &[("zk-1", "zk-1"), ("zk-2", "zk-2")]);
    }
    check_names(&machine, &CI, &[("zk-3", "@ci:zk-3")]);
}

#[test]
fn a_subject_keeps_its_sessions_when_its_namespace_is_registered() {
    let mut machine = guarded();
    for next in [set_subject("team/x", &["deploy"], &[]), add_token("team/x", 4)] {
        change(&mut machine, ADMIN, next).unwrap();
    }
    let team = Actor::Token(AccessTokenId(4));
    check_names(&machine, &team, &[("a", "@team~1x:a"), ("team:a", "@team~1x:team:a")]);
    apply(&mut machine, team.clone(), open_session("@team~1x:a")).unwrap();
    change(&mut machine, ADMIN, set_namespace("team", &[])).unwrap();
    check_names(
        &machine,
        &team,
        &[("a", "@team~1x:a"), ("b", "team:b"), ("team:a", "team:a"), ("other:a", "team:other:a")],
    );
    check_names(&machine, &CI, &[("team:a", "team:a")]);
    let renew = Command::RenewSession { session: session_name("@team~1x:a") };
    apply(&mut machine, team.clone(), renew).unwrap();
    apply(&mut machine, team.clone(), open_session("team:a")).unwrap();
    check_names(&machine, &team, &[("a", "team:a")]);
}

/// A caller that does not hold the lock learns nothing about the receiver, and no holder learns whether another subject's
/// session exists that may not receive the lock.
#[test]
fn a_transfer_does_not_reveal_the_sessions_of_others() {
    let mut machine = guarded();
    apply(&mut machine, CI, acquire("deploy/a", "@ci:c")).unwrap();
    apply(&mut machine, CI, open_session("@ci:d")).unwrap();
    apply(&mut machine, WEB, open_session("@web:w")).unwrap();
    let Command::Acquire(sharded) = acquire("deploy/s", "@ci:c") else { panic!("an acquire") };
    let shards = Some(ShardRequest { count: Some(2), choice: ShardChoice::Any });
    apply(&mut machine, CI, Command::Acquire(Acquire { shards, ..sharded })).unwrap();
    let hand_over = |lock: &str, from: &str, to: &str| {
        Command::HandOver(HandOver {
            lock: lock_name(lock),
            from: (session_name(from), Owner::unnamed()),
            to: (session_name(to), Owner::unnamed()),
            token: None,
        })
    };
    // A sharded lock means the shard of the giver.
    for name in ["deploy/a", "deploy/s", "deploy/s/0"] {
        for to in ["@web:w", "@web:none"] {
            let outcome = apply(&mut machine, CI, hand_over(name, "@ci:c", to));
            let (session, lock) = (session_name(to), lock_name(name));
            assert_eq!(rejected(&outcome), Some(&AuthRejection::Receiver { session, lock }));
            let outcome = apply(&mut machine, CI, hand_over(name, "@ci:d", to));
            assert!(matches!(outcome, Err(Rejection::Lock(_))), "{outcome:?}");
        }
        let unknown = apply(&mut machine, CI, hand_over(name, "@ci:c", "@ci:none"));
        assert!(matches!(unknown, Err(Rejection::Session(_))), "{unknown:?}");
    }
    apply(&mut machine, CI, hand_over("deploy/a", "@ci:c", "@ci:d")).unwrap();
}

#[test]
fn a_session_of_a_connection_is_not_used_by_its_name() {
    let mut machine = guarded();
    let name = session_name("zk-1");
    let opened = OpenSession { password: Some(Password([7; 16])), ..open("zk-1") };
    apply(&mut machine, Actor::Node, Command::OpenSession { open: opened, attempt: None }).unwrap();
    let outcome = apply(&mut machine, CI, acquire("deploy/eu", "zk-1"));
    let other = AuthRejection::OtherSubject { session: name.clone() };
    assert_eq!(rejected(&outcome), Some(&other));
    let close = Command::CloseSession { session: name, attachment: None, incarnation: None };
    let hidden = AuthRejection::HiddenSession { session: session_name("zk-1") };
    assert_eq!(rejected(&apply(&mut machine, CI, close.clone())), Some(&hidden));
    // Who may read the session learns which right is missing.
    change(&mut machine, ADMIN, set_role("deploy", &["session read *", "lock acquire *"])).unwrap();
    assert_eq!(forbidden(&apply(&mut machine, CI, close.clone())).unwrap(), "session close zk-1");
    assert_eq!(rejected(&apply(&mut machine, ADMIN, close)), Some(&other));
    apply(&mut machine, ADMIN, end("zk-1")).unwrap();
}
