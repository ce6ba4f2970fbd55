//! Generates random requests: the weight of each kind, and matching parameters.

use holdfast_zkwire::{
    Acl, AddWatchMode, Create, CreateMode, CreateOp, MultiOp, ReadOp, Reconfig, Request,
    WatcherType,
};

use super::names::Watched;
use super::{Luck, names};

/// TTLs of creates, milliseconds; −1 would terminate ZooKeeper.
const TTLS_MS: [i64; 6] = [3_600_000, 7_200_000, 1, (1 << 40) - 1, 1 << 40, 0];

/// One request.
pub(super) fn any(dice: &mut Luck) -> Request {
    match dice.weighted(&[30, 40, 24, 3]) {
        0 => read(dice),
        1 => write(dice),
        2 if dice.secrets => read(dice),
        2 => watch(dice),
        _ => rare(dice),
    }
}

fn read(dice: &mut Luck) -> Request {
    let path = names::readable(dice);
    match dice.below(12) {
        0 | 1 => Request::Exists { path, watch: false },
        2 | 3 => Request::GetData { path, watch: false },
        4 | 5 => Request::GetChildren2 { path, watch: false },
        6 => Request::GetChildren { path, watch: false },
        7 => Request::GetAcl { path },
        8 => Request::GetAllChildrenNumber { path },
        9 => Request::GetEphemerals { prefix: path },
        10 => Request::Sync { path },
        _ => {
            let reads = (0..dice.below(4)).map(|_| read_op(dice));
            Request::MultiRead(reads.collect())
        }
    }
}

fn read_op(dice: &mut Luck) -> ReadOp {
    let path = names::readable(dice);
    let watch = !dice.secrets && names::how(&path) == Watched::Once && dice.percent(20);
    if dice.percent(50) {
        ReadOp::GetData { path, watch }
    } else {
        ReadOp::GetChildren { path, watch }
    }
}

fn write(dice: &mut Luck) -> Request {
    match dice.weighted(&[40, 22, 18, 6, 14]) {
        0 => Request::Create(create(dice)),
        1 => Request::Delete { path: names::path(dice), version: names::version(dice) },
        2 => {
            let (path, data) = (names::path(dice), names::data(dice));
            Request::SetData { path, data, version: names::version(dice) }
        }
        3 => {
            let path = names::path(dice);
            let acl = if dice.percent(60) { names::acl(dice) } else { names::closed_acl(dice) };
            Request::SetAcl { path, acl, version: names::version(dice) }
        }
        _ => Request::Multi((0..dice.below(6)).map(|_| multi_op(dice)).collect()),
    }
}

fn create(dice: &mut Luck) -> Create {
    let ttl = TTLS_MS[dice.weighted(&[30, 30, 1, 10, 5, 5])];
    let (op, mode) = match dice.weighted(&[30, 20, 10, 14, 7, 4, 3, 3]) {
        0 => (CreateOp::Create, CreateMode::Persistent),
        1 => (CreateOp::Create2, CreateMode::Persistent),
        2 => (either(dice), CreateMode::Ephemeral),
        3 => (either(dice), CreateMode::PersistentSequential),
        4 => (either(dice), CreateMode::EphemeralSequential),
        5 => (CreateOp::Container, CreateMode::Container),
        6 => (CreateOp::Ttl, ttl_mode(dice, ttl)),
        _ => mixed(dice, ttl),
    };
    let numbered = matches!(mode.flags(), 2 | 3 | 6);
    let path = if numbered { names::numbered(dice) } else { names::path(dice) };
    // For a request with two errors, either error is correct.
    let acl = if names::is_odd(&path) { vec![Acl::open()] } else { names::acl(dice) };
    Create { op, path, data: names::data(dice), acl, mode }
}

fn either(dice: &mut Luck) -> CreateOp {
    dice.pick(&[CreateOp::Create, CreateOp::Create2])
}

/// Long enough that the node does not expire within a run.
fn ttl_mode(dice: &mut Luck, ttl: i64) -> CreateMode {
    let ttl = if ttl == 1 { 3_600_001 } else { ttl };
    if dice.percent(50) { CreateMode::Ttl(ttl) } else { CreateMode::TtlSequential(ttl) }
}

/// Flags and operations that may not match.
fn mixed(dice: &mut Luck, ttl: i64) -> (CreateOp, CreateMode) {
    let op = dice.pick(&[CreateOp::Create, CreateOp::Create2, CreateOp::Container, CreateOp::Ttl]);
    let flags = dice.pick(&[0, 1, 2, 3, 4, 5, 6, 7, 8, -1]);
    let ttl = if op == CreateOp::Ttl { ttl.max(3_600_000) } else { -1 };
    (op, CreateMode::from_flags(flags, ttl))
}

fn multi_op(dice: &mut Luck) -> MultiOp {
    match dice.weighted(&[40, 20, 20, 20]) {
        0 => MultiOp::Create(create(dice)),
        1 => MultiOp::Delete { path: names::path(dice), version: names::version(dice) },
        2 => {
            let (path, data) = (names::path(dice), names::data(dice));
            MultiOp::SetData { path, data, version: names::version(dice) }
        }
        _ => MultiOp::Check { path: names::path(dice), version: names::version(dice) },
    }
}

fn watch(dice: &mut Luck) -> Request {
    let path = names::readable(dice);
    match dice.weighted(&[60, 8, 10]) {
        0 => arm(dice, path),
        1 => Request::CheckWatches { path: names::watched(dice), kind: kind(dice) },
        _ => Request::RemoveWatches { path: names::watched(dice), kind: kind(dice) },
    }
}

fn arm(dice: &mut Luck, path: String) -> Request {
    let mode = match names::how(&path) {
        Watched::Once => {
            return match dice.weighted(&[18, 18, 10, 10]) {
                0 => Request::Exists { path, watch: true },
                1 => Request::GetData { path, watch: true },
                2 => Request::GetChildren { path, watch: true },
                _ => Request::GetChildren2 { path, watch: true },
            };
        }
        _ if dice.percent(3) => AddWatchMode::Unknown(2),
        Watched::Always => AddWatchMode::Persistent,
        Watched::Below => AddWatchMode::PersistentRecursive,
    };
    Request::AddWatch { path, mode }
}

fn kind(dice: &mut Luck) -> WatcherType {
    match dice.weighted(&[10, 10, 15, 1]) {
        0 => WatcherType::Children,
        1 => WatcherType::Data,
        2 => WatcherType::Any,
        _ => WatcherType::Unknown(9),
    }
}

fn rare(dice: &mut Luck) -> Request {
    match dice.weighted(&[60, 12, 12, 8, 3, 2]) {
        0 => {
            let auth = Some(dice.pick(&names::PROOFS).into());
            Request::Auth { kind: 0, scheme: "digest".to_owned(), auth }
        }
        1 => Request::WhoAmI,
        2 => Request::Ping,
        3 => Request::Check { path: names::path(dice), version: names::version(dice) },
        4 => Request::Reconfig(Reconfig { config_id: -1, ..Reconfig::default() }),
        _ => Request::Auth { kind: 0, scheme: "foo".to_owned(), auth: Some("x".into()) },
    }
}
