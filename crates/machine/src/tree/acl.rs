//! Access lists of znodes, with the rules of ZooKeeper.
//!
//! Bounds: [`AclEntry::MAX_COUNT`] entries; [`ID_MAX`] bytes of an id.

use core::net::IpAddr;
use std::sync::Arc;

use holdfast_types::{
    AccessList, AclEntry, Bound, Identity, Perms, Rejection, TreeRejection, ZnodePath,
};

use crate::context::limit_reached;
use crate::tree::znode::{Acl, Znode};

/// The largest length of an id in bytes.
const ID_MAX: usize = 1024;

/// Returns a list that allows every client to read, and nothing else.
pub(crate) fn read_only() -> Arc<AccessList> {
    let entry = AclEntry { perms: Perms::READ, who: Identity::anyone() };
    AccessList::new(vec![entry]).into()
}

/// As [`AccessList::allows`]; the open list allows everything.
pub(crate) fn allows(acl: &Acl, needed: Perms, identities: &[Identity]) -> bool {
    acl.as_ref().is_none_or(|acl| acl.allows(needed, identities))
}

/// Rejects a caller without any of the needed permissions on the node.
pub(crate) fn require(
    path: &ZnodePath,
    node: &Znode,
    needed: Perms,
    identities: &[Identity],
) -> Result<(), Rejection> {
    if allows(&node.acl, needed, identities) {
        return Ok(());
    }
    Err(Rejection::Tree(TreeRejection::NotAllowed { path: path.clone(), needed }))
}

/// Returns the list in stored form. `auth` entries become entries for the caller's proved identities, duplicates are
/// removed, and the open list becomes `None`.
pub(crate) fn normalize(
    path: &ZnodePath,
    given: Vec<AclEntry>,
    identities: &[Identity],
) -> Result<Acl, Rejection> {
    let bad = || Rejection::Tree(TreeRejection::BadAcl { path: path.clone() });
    if given.len() > AclEntry::MAX_COUNT {
        return Err(limit_reached(Bound::AclEntries, AclEntry::MAX_COUNT as u64));
    }
    let mut normalized: Vec<AclEntry> = Vec::with_capacity(given.len());
    for AclEntry { perms, who } in given {
        if who.scheme == "auth" {
            let proved = identities.iter().filter(|identities| is_proof(identities));
            let before = normalized.len();
            normalized.extend(proved.map(|identities| AclEntry { perms, who: identities.clone() }));
            if normalized.len() == before {
                return Err(bad());
            }
        } else if is_known(&who) {
            normalized.push(AclEntry { perms, who });
        } else {
            return Err(bad());
        }
    }
    let mut unique: Vec<AclEntry> = Vec::with_capacity(normalized.len());
    for entry in normalized {
        if !unique.contains(&entry) {
            unique.push(entry);
        }
    }
    match unique.as_slice() {
        [] => Err(bad()),
        [only] if *only == AclEntry::open() => Ok(None),
        entries if entries.len() > AclEntry::MAX_COUNT => {
            Err(limit_reached(Bound::AclEntries, AclEntry::MAX_COUNT as u64))
        }
        _ => Ok(Some(AccessList::new(unique).into())),
    }
}

/// Returns the list, or an equal list of another znode to share its memory.
pub(crate) fn shared(acl: Acl, with: &Acl) -> Acl {
    if acl == *with { with.clone() } else { acl }
}

/// Returns the list for a caller. Without the right to change the list, the password hashes are omitted.
pub(crate) fn redact(acl: &Acl, identities: &[Identity]) -> Vec<AclEntry> {
    let Some(list) = acl else { return vec![AclEntry::open()] };
    let mut entries = list.entries().to_vec();
    if !allows(acl, Perms::ADMIN, identities) {
        for entry in entries.iter_mut().filter(|entry| entry.who.scheme == "digest") {
            let user = entry.who.id.split_once(':').map_or("", |(user, _)| user);
            entry.who.id = format!("{user}:x");
        }
    }
    entries
}

/// True if a list from a snapshot is one that a command could have set.
pub(crate) fn is_within_bounds(acl: &[AclEntry]) -> bool {
    let open = matches!(acl, [only] if *only == AclEntry::open());
    acl.len() <= AclEntry::MAX_COUNT && !open && acl.iter().all(|entry| is_known(&entry.who))
}

/// True if an `auth` entry includes this identity. The caller does not prove its address.
fn is_proof(identities: &Identity) -> bool {
    matches!(identities.scheme.as_str(), "digest" | "x509") && is_known(identities)
}

/// True if the scheme is known and the id is valid for it.
fn is_known(who: &Identity) -> bool {
    let Identity { scheme, id } = who;
    id.len() <= ID_MAX
        && match scheme.as_str() {
            "world" => id == "anyone",
            "digest" => id.matches(':').count() == 1 && !id.starts_with(':') && !id.ends_with(':'),
            "ip" => is_network(id),
            "x509" => !id.is_empty(),
            _ => false,
        }
}

/// True for `address` or `address/bits`.
fn is_network(id: &str) -> bool {
    let (address, bits) = id.split_once('/').map_or((id, None), |(at, bits)| (at, Some(bits)));
    let most = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.is_none_or(|bits| bits.parse::<u32>().is_ok_and(|bits| bits <= most))
}
