//! The small sets of paths, data and access lists in scripts, with invalid paths among them.

use bytes::Bytes;
use holdfast_zkwire::{Acl, perms};

use super::Luck;

const NAMES: [&str; 3] = ["a", "b", "c"];
const ODD: [&str; 17] = [
    "a",
    "a/b",
    "/a/",
    "//",
    "//a",
    "/a//b",
    "/.",
    "/..",
    "/a/.",
    "/a/../b",
    "/./a",
    "/a\0b",
    "/\u{1}",
    "/a/\u{7f}",
    "/a b",
    "/ü",
    "/\u{f8ff}",
];
/// Read-only paths outside the folder of the run. The root is left out, because holdfast's root has `/locks`.
const OUTSIDE: [&str; 3] = ["^/zookeeper", "^/zookeeper/quota", "^/zookeeper/config"];

/// Users, with the hashes of their passwords.
pub(super) const PROOFS: [&str; 3] = ["u1:p1", "u2:p2", "u1:wrong"];
const DIGESTS: [&str; 2] = ["u1:fpT/y03U+EjItKZOSLGvjnJlyng=", "u2:o9NxcCGDPOlcV7JVhmKHOf5ctVE="];

/// A path, usually a valid one.
pub(super) fn path(dice: &mut Luck) -> String {
    match dice.weighted(&[40, 40, 8, 8, 3, 3]) {
        0 => format!("/{}", dice.pick(&NAMES)),
        1 => format!("/{}/{}", dice.pick(&NAMES), dice.pick(&NAMES)),
        2 => format!("/{}/{}/{}", dice.pick(&NAMES), dice.pick(&NAMES), dice.pick(&NAMES)),
        3 => sequential(dice),
        5 if !dice.secrets => dice.pick(&ODD).to_owned(),
        _ => "/".to_owned(),
    }
}

/// A path to be read.
pub(super) fn readable(dice: &mut Luck) -> String {
    if dice.percent(2) { dice.pick(&OUTSIDE).to_owned() } else { path(dice) }
}

/// The only watch mode of a path: ZooKeeper 3.8 keeps one mode per path and client, so that watches of different kinds
/// on one path interfere. They do not in ZooKeeper 3.9 and in holdfast.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Watched {
    Once,
    Always,
    Below,
}

/// The watch mode of this path.
pub(super) fn how(path: &str) -> Watched {
    match path.as_bytes().last() {
        Some(b'b') => Watched::Always,
        Some(b'c') => Watched::Below,
        _ => Watched::Once,
    }
}

/// True for an invalid path of the scripts.
pub(super) fn is_odd(path: &str) -> bool {
    path == "/" || ODD.contains(&path) || path.ends_with('/')
}

/// A path for a watch.
pub(super) fn watched(dice: &mut Luck) -> String {
    match dice.weighted(&[50, 40, 10]) {
        0 => format!("/{}", dice.pick(&NAMES)),
        1 => format!("/{}/{}", dice.pick(&NAMES), dice.pick(&NAMES)),
        _ => "/".to_owned(),
    }
}

/// A possible name of a sequential node.
fn sequential(dice: &mut Luck) -> String {
    let number = dice.below(6);
    let prefix = dice.pick(&["", "a", "s-"]);
    match dice.below(2) {
        0 => format!("/{prefix}{number:010}"),
        _ => format!("/{}/{prefix}{number:010}", dice.pick(&NAMES)),
    }
}

/// The path of a create of a sequential node.
pub(super) fn numbered(dice: &mut Luck) -> String {
    match dice.weighted(&[40, 40, 10, 5]) {
        0 => format!("/{}/s-", dice.pick(&NAMES)),
        1 => format!("/{}", dice.pick(&["s-", "a", "/"])),
        2 => format!("/{}/", dice.pick(&NAMES)),
        _ => path(dice),
    }
}

/// Null, empty or some data.
pub(super) fn data(dice: &mut Luck) -> Option<Bytes> {
    match dice.below(8) {
        0 => None,
        1 => Some(Bytes::new()),
        2 => Some(vec![b'x'; dice.below(70)].into()),
        n => Some(vec![b'0' + u8::try_from(n).unwrap_or(0); n].into()),
    }
}

/// A version: usually any, otherwise a small one that may not match.
pub(super) fn version(dice: &mut Luck) -> i32 {
    match dice.weighted(&[50, 18, 14, 8, 4, 2]) {
        0 => -1,
        1 => 0,
        2 => 1,
        3 => 2,
        4 => 3,
        _ => dice.pick(&[-2, i32::MIN, i32::MAX]),
    }
}

fn entry(perms: i32, scheme: &str, id: &str) -> Acl {
    Acl { perms, scheme: scheme.to_owned(), id: id.to_owned() }
}

/// The access list of a new node: usually open to all.
pub(super) fn acl(dice: &mut Luck) -> Vec<Acl> {
    if dice.percent(85) { vec![Acl::open()] } else { closed_acl(dice) }
}

/// A restrictive or invalid access list. Without secrets, all sessions may read.
pub(super) fn closed_acl(dice: &mut Luck) -> Vec<Acl> {
    let some = i32::try_from(dice.below(32)).unwrap_or(perms::ALL);
    let some = if dice.secrets { some } else { some | perms::READ };
    let digest = dice.pick(&DIGESTS);
    let mut acl = match dice.below(14) {
        0..3 => vec![entry(perms::ALL, "auth", "")],
        3..5 => vec![entry(perms::ALL, "digest", digest), entry(some, "world", "anyone")],
        5 => vec![entry(some, "world", "anyone")],
        6 => vec![entry(some, "digest", digest), entry(some, "digest", DIGESTS[0])],
        7 => vec![entry(perms::ALL, "ip", dice.pick(&["127.0.0.1", "127.0.0.1/8", "10.1.2.3"]))],
        8 => vec![Acl::open(), Acl::open()],
        9 => vec![entry(some, "auth", dice.pick(&["", "u1", "x:y"]))],
        10 => return Vec::new(),
        11 => vec![entry(perms::ALL, dice.pick(&["foo", "", "sasl"]), "x")],
        12 => vec![entry(perms::ALL, "digest", dice.pick(&["", "u1", "a:b:c", "u1:x"]))],
        _ => {
            let (scheme, id) =
                (dice.pick(&["world", "ip"]), dice.pick(&["", "nobody", "1.2.3.4/99"]));
            vec![entry(perms::ALL, scheme, id)]
        }
    };
    if !dice.secrets {
        acl.push(entry(perms::READ, "world", "anyone"));
    }
    acl
}
