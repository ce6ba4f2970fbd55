//! Subjects, roles and access tokens, and what they allow.

use holdfast_types::{
    AccessTokenId, Acquire, Actor, AuthChange, AuthMode, AuthRejection, Bound, CertificateName,
    Command, Condition, Create, CreateKind, Entry, Forbidden, Multi, NamespaceName, NewAccessToken,
    Op, OpenSession, Outcome, Owner, QuotaKind, Quotas, Reason, Rejection, Release, ReleaseTarget,
    Right, RoleName, SecretHash, Stamp, SubjectName, TokenPolicy, Ttl,
};

use super::script_commands::{lock_name, open, path, session_name};
use crate::Machine;

pub(super) const ADMIN: Actor = Actor::Token(AccessTokenId(1));
pub(super) const CI: Actor = Actor::Token(AccessTokenId(2));
pub(super) const WEB: Actor = Actor::Token(AccessTokenId(3));

pub(super) fn subject(name: &str) -> SubjectName {
    SubjectName::new(name).unwrap()
}

pub(super) fn role(name: &str) -> RoleName {
    RoleName::new(name).unwrap()
}

pub(super) fn token(id: u64) -> NewAccessToken {
    let hash = SecretHash([u8::try_from(id).unwrap(); 32]);
    NewAccessToken { id: AccessTokenId(id), hash, expires_at: None }
}

pub(super) fn bootstrap(mode: AuthMode) -> AuthChange {
    AuthChange::AddAdministrator { subject: subject("root"), token: token(1), mode: Some(mode) }
}

pub(super) fn set_role(name: &str, permissions: &[&str]) -> AuthChange {
    let permissions = permissions.iter().map(|text| text.parse().unwrap()).collect();
    AuthChange::SetRole { role: role(name), permissions }
}

pub(super) fn set_subject(name: &str, roles: &[&str], certificates: &[&str]) -> AuthChange {
    AuthChange::SetSubject {
        subject: subject(name),
        roles: roles.iter().map(|name| role(name)).collect(),
        certificates: certificates
            .iter()
            .map(|name| CertificateName::new(*name).unwrap())
            .collect(),
    }
}

pub(super) fn set_namespace(name: &str, quotas: &[(QuotaKind, u64)]) -> AuthChange {
    AuthChange::SetNamespace {
        namespace: NamespaceName::new(name).unwrap(),
        quotas: Quotas(quotas.iter().copied().collect()),
    }
}

pub(super) fn set_quotas(name: Option<&str>, quotas: &[(QuotaKind, u64)]) -> AuthChange {
    let quotas = Quotas(quotas.iter().copied().collect());
    AuthChange::SetQuotas { subject: name.map(subject), quotas }
}

pub(super) fn add_token(name: &str, id: u64) -> AuthChange {
    AuthChange::AddToken { subject: subject(name), token: token(id) }
}

/// One change of each kind; some are rejected.
pub(super) fn of_every_kind() -> Vec<Command> {
    let first = Command::Auth(bootstrap(AuthMode::Shadow));
    let changes = vec![
        set_role("deploy", &["lock acquire deploy/*", "tree read /cfg"]),
        set_role("gone", &[]),
        set_subject("ci", &["deploy", "gone"], &["CN=ci,O=prod"]),
        set_subject("old", &["viewer"], &[]),
        add_token("ci", 2),
        AuthChange::RotateToken {
            old: AccessTokenId(2),
            token: token(4),
            old_expires_at: Stamp(9_000),
        },
        AuthChange::DeleteRole { role: role("gone") },
        AuthChange::DeleteSubject { subject: subject("old") },
        AuthChange::DeleteToken { token: AccessTokenId(77) },
        AuthChange::SetMode(AuthMode::Off),
        set_namespace("team", &[(QuotaKind::Locks, 5), (QuotaKind::Bytes, 9)]),
        set_namespace("gone", &[]),
        AuthChange::DeleteNamespace { namespace: NamespaceName::new("gone").unwrap() },
        set_quotas(Some("ci"), &[(QuotaKind::Sessions, 7)]),
        set_quotas(None, &[(QuotaKind::Streams, 8)]),
        AuthChange::DenyCertificate {
            certificate: "4A".parse().unwrap(),
            reason: Reason::new("stolen").unwrap(),
        },
        AuthChange::AllowCertificate { certificate: "77".parse().unwrap() },
        AuthChange::SetTokenPolicy(TokenPolicy { default_ttl_ms: Some(5), max_ttl_ms: Some(9) }),
    ];
    let changes = changes.into_iter().map(|change| Command::Auth(change).by(ADMIN));
    let mut commands: Vec<_> = [first].into_iter().chain(changes).collect();
    commands.push(
        Command::OpenSession { open: open("owned"), attempt: None }
            .by(Actor::Subject(subject("ci"))),
    );
    commands
}

fn apply_at(machine: &mut Machine, at: u64, actor: Actor, command: Command) -> Outcome {
    let entry = Entry { stamped_at: Stamp(at), commands: vec![command.by(actor)] };
    let outcome = machine.apply(entry).outcomes.remove(0);
    machine.check_invariants().unwrap();
    outcome
}

pub(super) fn apply(machine: &mut Machine, actor: Actor, command: Command) -> Outcome {
    apply_at(machine, 1_000, actor, command)
}

pub(super) fn change(machine: &mut Machine, actor: Actor, change: AuthChange) -> Outcome {
    apply(machine, actor, Command::Auth(change))
}

/// A cluster in the mode `on`: `root` administers, `ci` deploys, `web` has only its own lock.
pub(super) fn guarded() -> Machine {
    let mut machine = Machine::new();
    change(&mut machine, Actor::Anonymous, bootstrap(AuthMode::On)).unwrap();
    for next in [
        set_role("deploy", &["lock acquire deploy/*", "tree write /cfg/*"]),
        set_role("web", &["lock acquire web", "recipe use web/*"]),
        set_subject("ci", &["deploy"], &["CN=ci,O=prod"]),
        set_subject("web", &["web"], &[]),
        add_token("ci", 2),
        add_token("web", 3),
    ] {
        change(&mut machine, ADMIN, next).unwrap();
    }
    machine
}

pub(super) fn acquire(lock: &str, session: &str) -> Command {
    Command::Acquire(Acquire::new(lock_name(lock), open(session), Owner::unnamed()))
}

pub(super) fn release(lock: &str, session: &str) -> Command {
    Command::Release(Release {
        locks: lock_name(lock).into(),
        session: session_name(session),
        owner: Owner::unnamed(),
        target: ReleaseTarget::AnyEntry,
    })
}

/// The end of a session by an operator.
pub(super) fn end(session: &str) -> Command {
    let reason = Reason::new("stuck").unwrap();
    Command::EndSession { session: session_name(session), incarnation: None, reason }
}

pub(super) fn forbidden(outcome: &Outcome) -> Option<String> {
    match outcome {
        Err(Rejection::Auth(AuthRejection::Forbidden(forbidden))) => Some(forbidden.needed()),
        _ => None,
    }
}

pub(super) fn rejected(outcome: &Outcome) -> Option<&AuthRejection> {
    match outcome {
        Err(Rejection::Auth(rejection)) => Some(rejection),
        _ => None,
    }
}

#[test]
fn a_call_is_admitted_by_a_right_that_could_allow_it() {
    let machine = guarded();
    let admits = |actor: &Actor, rights: &[Right]| {
        machine.rights_of(actor, Stamp(1_000)).unwrap().check_any_of(rights)
    };
    let lacks = |right, name: &str| {
        let forbidden = Forbidden { subject: subject("web"), right, name: name.to_owned() };
        Err(AuthRejection::Forbidden(Box::new(forbidden)))
    };
    assert_eq!(admits(&ADMIN, &[Right::AuthManage]), Ok(()));
    // A right that another one includes, on whatever names.
    assert_eq!(admits(&WEB, &[Right::TreeRead, Right::LockCheck]), Ok(()));
    assert_eq!(admits(&WEB, &[Right::TreeWrite]), lacks(Right::TreeWrite, "*"));
    assert_eq!(admits(&WEB, &[Right::AuthManage]), lacks(Right::AuthManage, ""));
    assert_eq!(admits(&WEB, &[]), Ok(()));
    for rights in [&[Right::LockAcquire][..], &[]] {
        assert_eq!(admits(&Actor::Anonymous, rights), Err(AuthRejection::NoCredential));
    }
}

#[test]
fn without_an_administrator_everything_but_the_authorization_is_open() {
    let mut machine = Machine::new();
    apply(&mut machine, Actor::Anonymous, acquire("a", "me")).unwrap();
    for next in [set_subject("me", &["admin"], &[]), AuthChange::SetMode(AuthMode::On)] {
        let outcome = change(&mut machine, Actor::Anonymous, next);
        assert_eq!(rejected(&outcome), Some(&AuthRejection::NoAdministrator));
    }
}

#[test]
fn the_first_administrator_is_added_once_and_later_ones_by_a_node() {
    let mut machine = guarded();
    let again = AuthChange::AddAdministrator {
        subject: subject("mallory"),
        token: token(9),
        mode: Some(AuthMode::Off),
    };
    for actor in [Actor::Anonymous, CI, ADMIN] {
        let outcome = change(&mut machine, actor, again.clone());
        assert_eq!(rejected(&outcome), Some(&AuthRejection::HasAdministrator));
    }
    assert_eq!(machine.auth_mode(), AuthMode::On);
    change(&mut machine, Actor::Node, again).unwrap();
    let recovered = Actor::Token(AccessTokenId(9));
    change(&mut machine, recovered, AuthChange::SetMode(AuthMode::Off)).unwrap();
}

#[test]
fn a_permission_allows_only_its_names() {
    let mut machine = guarded();
    apply(&mut machine, CI, acquire("deploy/eu", "ci1")).unwrap();
    let outcome = apply(&mut machine, CI, acquire("orders", "ci2"));
    assert_eq!(forbidden(&outcome).unwrap(), "lock acquire orders");
    let outcome = apply(&mut machine, Actor::Anonymous, acquire("deploy/eu", "x"));
    assert_eq!(rejected(&outcome), Some(&AuthRejection::NoCredential));
    let outcome = apply(&mut machine, Actor::Token(AccessTokenId(99)), acquire("deploy/eu", "x"));
    assert_eq!(rejected(&outcome), Some(&AuthRejection::UnknownToken));
    let certificate = Actor::Subject(subject("ci"));
    apply(&mut machine, certificate, acquire("deploy/us", "ci1")).unwrap();
}

#[test]
fn a_denied_command_changes_nothing() {
    let mut machine = guarded();
    let before = machine.clone();
    for (actor, command) in [
        (WEB, acquire("deploy/eu", "w")),
        (WEB, Command::Auth(set_role("web", &["lock acquire *"]))),
        (Actor::Anonymous, Command::OpenSession { open: open("x"), attempt: None }),
        (CI, Command::SetLimits(holdfast_types::Limits::default())),
    ] {
        let outcome = apply(&mut machine, actor, command.clone());
        assert!(rejected(&outcome).is_some(), "{command:?}: {outcome:?}");
    }
    let head = |machine: &Machine| (machine.counts(), machine.auth.clone());
    assert_eq!(head(&machine), head(&before));
}

#[test]
fn a_session_belongs_to_the_subject_that_opened_it() {
    let mut machine = guarded();
    change(&mut machine, ADMIN, set_role("both", &["lock acquire *"])).unwrap();
    change(&mut machine, ADMIN, set_subject("web", &["both"], &[])).unwrap();
    apply(&mut machine, CI, acquire("deploy/eu", "ci1")).unwrap();
    let session = session_name("ci1");
    let other = AuthRejection::OtherSubject { session: session.clone() };
    let hidden = AuthRejection::HiddenSession { session: session.clone() };
    for command in [
        acquire("deploy/eu", "ci1"),
        release("deploy/eu", "ci1"),
        Command::OpenSession { open: open("ci1"), attempt: None },
        Command::RenewSession { session: session.clone() },
        Command::CloseSession { session: session.clone(), attachment: None, incarnation: None },
    ] {
        let outcome = apply(&mut machine, WEB, command.clone());
        let denied = rejected(&outcome).unwrap_or_else(|| panic!("{command:?}: {outcome:?}"));
        let opens = matches!(command, Command::OpenSession { .. } | Command::Acquire(_));
        assert_eq!(denied, if opens { &other } else { &hidden }, "{command:?}");
    }
    // Every token and certificate of the subject may use it.
    apply(&mut machine, Actor::Subject(subject("ci")), release("deploy/eu", "ci1")).unwrap();
    // The permission `session close` ends it, but not by the close of its client, which has no record and no lock delay.
    let close = Command::CloseSession { session, attachment: None, incarnation: None };
    assert_eq!(rejected(&apply(&mut machine, ADMIN, close)), Some(&other));
    apply(&mut machine, ADMIN, end("ci1")).unwrap();
    apply(&mut machine, WEB, Command::OpenSession { open: open("ci1"), attempt: None }).unwrap();
}

#[test]
fn a_condition_does_not_reveal_the_sessions_of_others() {
    let mut machine = guarded();
    apply(&mut machine, CI, Command::OpenSession { open: open("ci1"), attempt: None }).unwrap();
    let is_open = |session: &str| {
        let conditions = vec![Condition::SessionOpen { session: session_name(session) }];
        Command::Multi(Multi { conditions, ..Multi::default() })
    };
    for (actor, session, expected) in [
        (CI, "ci1", true),
        (ADMIN, "ci1", true),
        (WEB, "unknown", false),
        (WEB, "ci1", false),
        (ADMIN, "unknown", false),
    ] {
        let outcome = apply(&mut machine, actor, is_open(session));
        let Ok(holdfast_types::Reply::Multi(reply)) = outcome else { panic!("{outcome:?}") };
        assert_eq!(reply.succeeded, expected, "{session}");
    }
}

#[test]
fn an_expired_session_is_acknowledged_only_by_its_subject() {
    let mut machine = guarded();
    apply(&mut machine, CI, Command::OpenSession { open: open("ci1"), attempt: None }).unwrap();
    let (id, _) = machine.session_id(&session_name("ci1")).unwrap();
    apply(&mut machine, Actor::Node, Command::ExpireSession { session: id, generation: 1 })
        .unwrap();
    let close =
        Command::CloseSession { session: session_name("ci1"), attachment: None, incarnation: None };
    assert!(rejected(&apply(&mut machine, WEB, close.clone())).is_some());
    apply(&mut machine, CI, close).unwrap();
}

#[test]
fn a_subject_without_its_permission_can_still_release() {
    let mut machine = guarded();
    apply(&mut machine, CI, acquire("deploy/eu", "ci1")).unwrap();
    change(&mut machine, ADMIN, set_subject("ci", &[], &[])).unwrap();
    assert!(forbidden(&apply(&mut machine, CI, acquire("deploy/eu", "ci1"))).is_some());
    apply(&mut machine, CI, release("deploy/eu", "ci1")).unwrap();
}

#[test]
fn every_operation_of_a_multi_needs_its_permission() {
    let mut machine = guarded();
    let create = |directory: &str, name: &str| {
        Op::Create(Create {
            directory: path(directory),
            name: name.to_owned(),
            data: Vec::new().into(),
            kind: CreateKind::Persistent,
            sequential: false,
            acl: None,
            parents: false,
        })
    };
    let multi = |then: Vec<Op>, otherwise: Vec<Op>| {
        Command::Multi(Multi { then, otherwise, ..Multi::default() })
    };
    apply(&mut machine, ADMIN, multi(vec![create("/", "cfg")], Vec::new())).unwrap();
    apply(&mut machine, CI, multi(vec![create("/cfg", "a")], Vec::new())).unwrap();
    for hidden in [
        multi(vec![create("/cfg", "b"), create("/", "x")], Vec::new()),
        multi(vec![create("/cfg", "b")], vec![create("/", "x")]),
    ] {
        let outcome = apply(&mut machine, CI, hidden);
        assert_eq!(forbidden(&outcome).unwrap(), "tree write /x");
    }
    assert!(machine.stat(&path("/cfg/b")).is_none());
}

#[test]
fn a_change_of_a_subtree_needs_a_permission_on_all_of_it() {
    let mut machine = guarded();
    let roles = [
        set_role("exact", &["tree write /cfg", "tree admin /cfg"]),
        set_role("below", &["tree write /cfg/*"]),
        set_subject("web", &["exact"], &[]),
        set_subject("ci", &["below"], &[]),
    ];
    for next in roles {
        change(&mut machine, ADMIN, next).unwrap();
    }
    let one = |op: Op| Command::Multi(Multi { then: vec![op], ..Multi::default() });
    let create = |directory: &str, name: &str, sequential| {
        let (directory, name) = (path(directory), name.to_owned());
        let (data, kind) = (Vec::new().into(), CreateKind::Persistent);
        one(Op::Create(Create {
            directory,
            name,
            data,
            kind,
            sequential,
            acl: None,
            parents: false,
        }))
    };
    let delete = |at: &str, recursive| one(Op::Delete { path: path(at), version: None, recursive });
    apply(&mut machine, WEB, create("/", "cfg", false)).unwrap();
    apply(&mut machine, CI, create("/cfg", "a", false)).unwrap();
    // The name in the call is the permitted one, but the cluster makes another one of it.
    let outcome = apply(&mut machine, WEB, create("/", "cfg", true));
    assert_eq!(forbidden(&outcome).unwrap(), "tree write /*");
    apply(&mut machine, CI, create("/cfg", "", true)).unwrap();
    apply(&mut machine, CI, create("/cfg", "job-", true)).unwrap();
    let outcome = apply(&mut machine, WEB, delete("/cfg", true));
    assert_eq!(forbidden(&outcome).unwrap(), "tree write /cfg/*");
    let outcome = apply(&mut machine, CI, delete("/cfg", true));
    assert_eq!(forbidden(&outcome).unwrap(), "tree write /cfg");
    assert_eq!(machine.stat(&path("/cfg")).unwrap().num_children, 3);
    apply(&mut machine, CI, delete("/cfg/a", true)).unwrap();
    let both = set_role("exact", &["tree write /cfg", "tree write /cfg/*"]);
    change(&mut machine, ADMIN, both).unwrap();
    apply(&mut machine, WEB, delete("/cfg", true)).unwrap();
}

#[test]
fn an_expired_or_deleted_token_is_rejected_at_apply() {
    let mut machine = guarded();
    let rotated = AuthChange::RotateToken {
        old: AccessTokenId(2),
        token: token(5),
        old_expires_at: Stamp(2_000),
    };
    change(&mut machine, ADMIN, rotated).unwrap();
    apply_at(&mut machine, 1_999, CI, acquire("deploy/eu", "ci1")).unwrap();
    let outcome = apply_at(&mut machine, 2_000, CI, acquire("deploy/us", "ci1"));
    assert_eq!(rejected(&outcome), Some(&AuthRejection::TokenExpired));
    let new = Actor::Token(AccessTokenId(5));
    apply_at(&mut machine, 2_000, new.clone(), acquire("deploy/us", "ci1")).unwrap();
    change(&mut machine, ADMIN, AuthChange::DeleteToken { token: AccessTokenId(5) }).unwrap();
    let outcome = apply_at(&mut machine, 2_000, new, acquire("deploy/us", "ci1"));
    assert_eq!(rejected(&outcome), Some(&AuthRejection::UnknownToken));
}

#[test]
fn the_last_administrator_cannot_be_removed() {
    let mut machine = guarded();
    for removal in [
        AuthChange::DeleteToken { token: AccessTokenId(1) },
        AuthChange::DeleteSubject { subject: subject("root") },
        set_subject("root", &["viewer"], &[]),
        AuthChange::RotateToken {
            old: AccessTokenId(1),
            token: NewAccessToken { expires_at: Some(Stamp(500)), ..token(8) },
            old_expires_at: Stamp(500),
        },
    ] {
        let outcome = change(&mut machine, ADMIN, removal.clone());
        assert_eq!(rejected(&outcome), Some(&AuthRejection::LastAdministrator), "{removal:?}");
    }
    // With a second one, by certificate, the first one can go.
    change(&mut machine, ADMIN, set_subject("anna", &["admin"], &["CN=anna"])).unwrap();
    change(&mut machine, ADMIN, AuthChange::DeleteSubject { subject: subject("root") }).unwrap();
    assert_eq!(machine.access_token(AccessTokenId(1)), None);
    let anna = Actor::Subject(subject("anna"));
    let outcome = change(&mut machine, anna, set_subject("anna", &["admin"], &[]));
    assert_eq!(rejected(&outcome), Some(&AuthRejection::LastAdministrator));
}

#[test]
fn invalid_changes_are_rejected_by_name() {
    let mut machine = guarded();
    let too_many: Vec<_> = (0..65).map(|n| format!("lock read l{n}")).collect();
    let too_many: Vec<_> = too_many.iter().map(String::as_str).collect();
    for (next, expected) in [
        (set_role("admin", &[]), AuthRejection::BuiltInRole { role: role("admin") }.into()),
        (
            AuthChange::DeleteRole { role: role("none") },
            AuthRejection::NoRole { role: role("none") }.into(),
        ),
        (set_subject("x", &["none"], &[]), AuthRejection::NoRole { role: role("none") }.into()),
        (
            set_subject("x", &[], &["CN=ci,O=prod"]),
            AuthRejection::CertificateTaken {
                certificate: CertificateName::new("CN=ci,O=prod").unwrap(),
                subject: subject("ci"),
            }
            .into(),
        ),
        (add_token("nobody", 9), AuthRejection::NoSubject { subject: subject("nobody") }.into()),
        (add_token("ci", 2), AuthRejection::TokenExists { token: AccessTokenId(2) }.into()),
        (
            AuthChange::DeleteToken { token: AccessTokenId(9) },
            AuthRejection::NoToken { token: AccessTokenId(9) }.into(),
        ),
        (
            set_role("big", &too_many),
            Rejection::LimitReached { bound: Bound::Permissions, limit: 64 },
        ),
    ] {
        let outcome = change(&mut machine, ADMIN, next.clone());
        assert_eq!(outcome, Err(expected), "{next:?}");
    }
}

#[test]
fn a_deleted_role_is_taken_from_its_subjects() {
    let mut machine = guarded();
    change(&mut machine, ADMIN, AuthChange::DeleteRole { role: role("deploy") }).unwrap();
    assert!(machine.subject(&subject("ci")).unwrap().roles.is_empty());
    assert!(forbidden(&apply(&mut machine, CI, acquire("deploy/eu", "ci1"))).is_some());
}

#[test]
fn the_role_anonymous_holds_for_every_caller() {
    let mut machine = guarded();
    change(&mut machine, ADMIN, set_role("anonymous", &["lock read public/*"])).unwrap();
    let may =
        |actor: &Actor, name| machine.rights_of(actor, Stamp(0))?.check(Right::LockRead, name);
    assert_eq!(may(&Actor::Anonymous, "public/a"), Ok(()));
    assert_eq!(may(&WEB, "public/a"), Ok(()));
    assert_eq!(may(&Actor::Anonymous, "secret"), Err(AuthRejection::NoCredential));
    let rights = machine.rights_of(&Actor::Anonymous, Stamp(0)).unwrap();
    let (by, permission) = rights.deciding_permission(Right::LockCheck, "public/a").unwrap();
    assert_eq!((by, permission.to_string().as_str()), ("anonymous", "lock read public/*"));
}

#[test]
fn the_mode_off_opens_everything_but_the_authorization() {
    let mut machine = guarded();
    change(&mut machine, ADMIN, AuthChange::SetMode(AuthMode::Shadow)).unwrap();
    apply(&mut machine, WEB, acquire("deploy/eu", "w")).unwrap();
    apply(&mut machine, Actor::Anonymous, acquire("deploy/eu", "x")).unwrap();
    let outcome = change(&mut machine, WEB, set_subject("web", &["admin"], &[]));
    assert_eq!(forbidden(&outcome).unwrap(), "auth manage");
    let mut fresh = Machine::new();
    let on_without = change(&mut fresh, Actor::Node, AuthChange::SetMode(AuthMode::On));
    assert_eq!(rejected(&on_without), Some(&AuthRejection::NoAdministrator));
}

#[test]
fn a_session_without_a_subject_is_open_to_every_caller() {
    let mut machine = Machine::new();
    let me = OpenSession { ttl: Some(Ttl::DEFAULT), ..open("me") };
    apply(&mut machine, Actor::Anonymous, Command::OpenSession { open: me, attempt: None })
        .unwrap();
    change(&mut machine, Actor::Anonymous, bootstrap(AuthMode::On)).unwrap();
    let check =
        |actor: &Actor| machine.rights_of(actor, Stamp(0))?.check_session(&session_name("me"));
    assert_eq!(check(&ADMIN), Ok(()));
    assert_eq!(check(&Actor::Anonymous), Err(AuthRejection::NoCredential));
}
