//! Random multis: operations on existing, deleted and unknown znodes.

use holdfast_types::*;
use proptest::prelude::*;

use super::history::session;
use super::model::Model;
use super::script_commands::{lock_name, path};

/// A multi. Numbers pick among existing znodes, modulo their count.
#[derive(Clone, Debug)]
pub(super) struct Change {
    caller: Caller,
    call: Option<NumberedCall>,
    /// Whether the attachment is the current one (true) or the one before; `None` sends none.
    connection: Option<bool>,
    conditions: Vec<If>,
    then: Vec<Do>,
    otherwise: Vec<Do>,
}

/// A condition.
#[derive(Clone, Debug)]
enum If {
    Version(usize, i32),
    Data(usize, u8),
    Condition(Condition),
}

/// An operation.
#[derive(Clone, Debug)]
enum Do {
    Create(Create),
    Delete(usize, Option<i32>, bool),
    Set(usize, Option<i32>, u8),
    Limit(usize, u8),
    SetAcl(usize, Option<i32>, Vec<AclEntry>),
    Check(usize, Option<i32>),
}

impl Change {
    pub(super) fn command(&self, model: &Model) -> Command {
        let mut caller = self.caller.clone();
        let live = caller.session.as_ref().and_then(|name| model.live(name));
        caller.attachment = match (self.connection, live.and_then(|live| live.attachment)) {
            (Some(true), Some(at)) => Some(Revision(at)),
            (Some(false), Some(at)) => Some(Revision(at - 1)),
            (Some(_), None) | (None, _) => None,
        };
        let ops = |ops: &[Do]| ops.iter().filter_map(|op| op.op(model)).collect();
        Command::Multi(Multi {
            caller,
            conditions: self.conditions.iter().map(|condition| condition.of(model)).collect(),
            then: ops(&self.then),
            otherwise: ops(&self.otherwise),
        })
        .once(self.call.clone())
    }
}

fn pick(model: &Model, n: usize) -> ZnodePath {
    path(&model.nodes[n % model.nodes.len()].path)
}

impl If {
    fn of(&self, model: &Model) -> Condition {
        match self {
            If::Version(n, version) => {
                Condition::Version { path: pick(model, *n), version: *version }
            }
            If::Data(n, len) => {
                Condition::Data { path: pick(model, *n), data: vec![0; (*len).into()] }
            }
            If::Condition(condition) => condition.clone(),
        }
    }
}

impl Do {
    fn op(&self, model: &Model) -> Option<Op> {
        Some(match self {
            Do::Create(create) => Op::Create(create.clone()),
            Do::Delete(n, version, recursive) => {
                let (path, version) = (pick(model, *n), *version);
                Op::Delete { path, version, recursive: *recursive }
            }
            Do::Set(n, version, len) => {
                let data = vec![0; (*len).into()];
                Op::SetData { path: pick(model, *n), data: data.into(), version: *version }
            }
            Do::Limit(n, limit) => {
                let quotas = model.quotas();
                let (at, _) = quotas.get(n % quotas.len().max(1))?;
                let at = format!("/zookeeper/quota{}/zookeeper_limits", at.trim_end_matches('/'));
                Op::SetData { path: path(&at), data: limits_text(*limit).into(), version: None }
            }
            Do::SetAcl(n, version, acl) => {
                Op::SetAcl { path: pick(model, *n), acl: acl.clone(), version: *version }
            }
            Do::Check(n, version) => Op::Check { path: pick(model, *n), version: *version },
        })
    }
}

fn limits_text(limit: u8) -> Vec<u8> {
    let (count, bytes) = (limit % 6 + 1, limit / 6);
    format!("count=1,bytes=-1=;byteHardLimit={bytes};countHardLimit={count}").into_bytes()
}

fn identity() -> impl Strategy<Value = Identity> {
    let who = |scheme: &str, id: &str| Identity { scheme: scheme.to_owned(), id: id.to_owned() };
    prop::sample::select(vec![who("digest", "u:h"), who("digest", "v:h"), who("ip", "10.0.0.1")])
}

fn acl() -> impl Strategy<Value = Vec<AclEntry>> {
    let who = |scheme: &str, id: &str| Identity { scheme: scheme.to_owned(), id: id.to_owned() };
    let who = prop_oneof![
        4 => Just(Identity::anyone()),
        3 => identity(),
        2 => Just(who("auth", "")),
        1 => Just(who("bogus", "x")),
    ];
    let entry = (who, 0..32_u32)
        .prop_map(|(who, bits)| AclEntry { perms: Perms::from_bits(bits).unwrap(), who });
    prop_oneof![
        3 => Just(vec![AclEntry::open()]),
        2 => prop::collection::vec(entry, 0..3),
    ]
}

fn create() -> impl Strategy<Value = Do> {
    let paths = vec![
        "/x",
        "/x/y",
        "/x/y/z",
        "/x/n-",
        "/e",
        "/t",
        "/t/u",
        "/locks/a",
        "/locks/a/m-lock-",
        "/locks/b/m-lock-",
        "/locks/a/x__READ__",
        "/locks/b/x__rlock__",
        "/locks/a/0000000002__WRIT__0000000002__lock__0000000002",
        "/locks/a/c",
        "/zookeeper/quota/x/zookeeper_limits/y",
    ];
    let kind = prop_oneof![
        2 => Just(CreateKind::Persistent),
        2 => Just(CreateKind::Container),
        4 => Just(CreateKind::Ephemeral),
        2 => (0..120_u64).prop_map(|ms| CreateKind::Ttl { ms }),
    ];
    let acl = prop::option::weighted(0.2, acl());
    let path = prop::sample::select(paths);
    (path, kind, any::<bool>(), prop::bool::weighted(0.3), 0..3_usize, acl).prop_map(
        |(at, kind, sequential, parents, len, acl)| {
            let (directory, name) = ZnodePath::for_create(at, sequential).unwrap();
            // A time-to-live of 0 is not valid.
            let kind = match kind {
                CreateKind::Ttl { ms: 0 } => CreateKind::Persistent,
                kind => kind,
            };
            let data = vec![0; len];
            Do::Create(Create {
                directory,
                name,
                data: data.into(),
                kind,
                sequential,
                acl,
                parents,
            })
        },
    )
}

/// A quota, set by the creation of its limits.
fn quota() -> impl Strategy<Value = Do> {
    (prop::sample::select(vec!["/x", "/locks/a", "/locks", "", "/t"]), any::<u8>()).prop_map(
        |(at, limit)| {
            let at = path(&format!("/zookeeper/quota{at}"));
            let (name, data) = ("zookeeper_limits".to_owned(), limits_text(limit));
            let (kind, acl) = (CreateKind::Persistent, None);
            let (directory, sequential, parents) = (at, false, true);
            Do::Create(Create {
                directory,
                name,
                data: data.into(),
                kind,
                sequential,
                acl,
                parents,
            })
        },
    )
}

fn op() -> impl Strategy<Value = Do> {
    let version = || prop::option::weighted(0.3, 0..2_i32);
    let at = any::<usize>;
    prop_oneof![
        12 => create(),
        1 => quota(),
        5 => (at(), version(), prop::bool::weighted(0.3)).prop_map(|(n, v, all)| Do::Delete(n, v, all)),
        4 => (at(), version(), 0..4_u8).prop_map(|(n, v, len)| Do::Set(n, v, len)),
        1 => (at(), any::<u8>()).prop_map(|(n, limit)| Do::Limit(n, limit)),
        1 => (at(), version(), acl()).prop_map(|(n, v, acl)| Do::SetAcl(n, v, acl)),
        2 => (at(), version()).prop_map(|(n, v)| Do::Check(n, v)),
    ]
}

fn condition() -> impl Strategy<Value = If> {
    let known = prop_oneof![
        (prop::sample::select(vec!["/x", "/t", "/locks/a"]), any::<bool>())
            .prop_map(|(at, exists)| Condition::Exists { path: path(at), exists }),
        (1..20_u64).prop_map(|token| {
            Condition::Holds { lock: lock_name("a"), token: FencingToken(token) }
        }),
        session().prop_map(|session| Condition::SessionOpen { session }),
    ];
    prop_oneof![
        (any::<usize>(), 0..2_i32).prop_map(|(n, version)| If::Version(n, version)),
        (any::<usize>(), 0..3_u8).prop_map(|(n, len)| If::Data(n, len)),
        known.prop_map(If::Condition),
    ]
}

fn caller() -> impl Strategy<Value = Caller> {
    (prop::option::weighted(0.8, session()), prop::collection::vec(identity(), 0..2))
        .prop_map(|(session, identities)| Caller { session, attachment: None, identities })
}

/// A numbered call with one of few numbers.
pub(super) fn call() -> impl Strategy<Value = NumberedCall> {
    (session(), 0..9_u64, 0..2_u128).prop_map(|(session, request, scope)| NumberedCall {
        session,
        request: RequestNumber(request),
        scope: CallScope(scope),
    })
}

/// A random multi: most have one operation and no condition.
pub(super) fn multi() -> impl Strategy<Value = Change> {
    let few = prop_oneof![
        3 => prop::collection::vec(op(), 1..2),
        2 => prop::collection::vec(op(), 0..5),
    ];
    let conditions = prop_oneof![
        3 => Just(Vec::new()),
        1 => prop::collection::vec(condition(), 1..3),
    ];
    let otherwise = prop::collection::vec(op(), 0..2);
    let call = prop::option::weighted(0.4, call());
    (caller(), call, prop::option::weighted(0.3, any::<bool>()), conditions, few, otherwise)
        .prop_map(|(caller, call, connection, conditions, then, otherwise)| Change {
            caller,
            call,
            connection,
            conditions,
            then,
            otherwise,
        })
}
