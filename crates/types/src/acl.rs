//! ZooKeeper's access lists: permissions, identities, and the match of an entry with an identity.
//!
//! The front-ends authenticate identities. Source: the ZooKeeper programmer's guide, "Access control using ACLs".

use core::net::IpAddr;
use std::fmt;
use std::ops::BitOr;

use serde::{Deserialize, Serialize};

/// A set of permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Perms(u8);

impl Perms {
    /// Read the data and list the children.
    pub const READ: Self = Self(1);
    /// Replace the data.
    pub const WRITE: Self = Self(2);
    /// Create children.
    pub const CREATE: Self = Self(4);
    /// Delete children.
    pub const DELETE: Self = Self(8);
    /// Replace the access list.
    pub const ADMIN: Self = Self(16);
    pub const ALL: Self = Self(31);

    /// A set from its bits; `None` if any other bit is set.
    pub fn from_bits(bits: u32) -> Option<Self> {
        u8::try_from(bits).ok().filter(|bits| *bits <= Self::ALL.0).map(Self)
    }

    /// The bits, as ZooKeeper numbers them.
    pub fn bits(self) -> u32 {
        self.0.into()
    }

    /// True if any of `needed` is in the set.
    pub fn intersects(self, needed: Self) -> bool {
        self.0 & needed.0 != 0
    }
}

impl BitOr for Perms {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for Perms {
    /// As `cdrwa` letters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = [
            (Self::CREATE, "c"),
            (Self::DELETE, "d"),
            (Self::READ, "r"),
            (Self::WRITE, "w"),
            (Self::ADMIN, "a"),
        ];
        letters
            .iter()
            .filter(|(perm, _)| self.intersects(*perm))
            .try_for_each(|(_, l)| f.write_str(l))
    }
}

/// An identity: `world:anyone`, `ip:10.0.0.7`, `digest:user:hash`. In a list to set, `auth:` stands for every identity
/// that the caller has authenticated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The authentication scheme.
    pub scheme: String,
    /// The id, in the syntax of the scheme.
    pub id: String,
}

impl Identity {
    /// `world:anyone`.
    pub fn anyone() -> Self {
        Self { scheme: "world".to_owned(), id: "anyone".to_owned() }
    }

    /// ZooKeeper's identity of a caller to whom no access list applies. A list cannot name it.
    pub fn superuser() -> Self {
        Self { scheme: "super".to_owned(), id: String::new() }
    }

    pub fn is_superuser(&self) -> bool {
        self.scheme == "super"
    }

    /// True if an entry for `self` applies to a caller with the identity `shown`.
    pub fn covers(&self, shown: &Self) -> bool {
        match (self.scheme.as_str(), shown.scheme.as_str()) {
            ("world", _) => self.id == "anyone",
            ("ip", "ip") => covers_address(&self.id, &shown.id),
            (entry, shown_scheme) => entry == shown_scheme && self.id == shown.id,
        }
    }
}

/// One entry of an access list.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AclEntry {
    pub perms: Perms,
    pub who: Identity,
}

impl AclEntry {
    /// The maximum number of entries in a list.
    pub const MAX_COUNT: usize = 64;

    /// Grants every permission to every caller.
    pub fn open() -> Self {
        Self { perms: Perms::ALL, who: Identity::anyone() }
    }
}

/// The entries of an access list. Invariant: not empty, and not the open list, which has no `AccessList`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AccessList(Box<[AclEntry]>);

impl AccessList {
    pub fn new(entries: Vec<AclEntry>) -> Self {
        Self(entries.into())
    }

    /// The entries in the order in which they were set.
    pub fn entries(&self) -> &[AclEntry] {
        &self.0
    }

    /// True if the list allows a caller with these identities at least one of the needed permissions. No list applies to
    /// [`Identity::superuser`].
    pub fn allows(&self, needed: Perms, identities: &[Identity]) -> bool {
        let is_meant = |who: &Identity| {
            *who == Identity::anyone() || identities.iter().any(|identity| who.covers(identity))
        };
        identities.iter().any(Identity::is_superuser)
            || self.0.iter().any(|entry| entry.perms.intersects(needed) && is_meant(&entry.who))
    }
}

/// True if the address is in the network, `address[/bits]`.
fn covers_address(network: &str, address: &str) -> bool {
    let (base, bits) = match network.split_once('/') {
        Some((base, bits)) => (base, bits.parse::<u32>().ok()),
        None => (network, Some(128)),
    };
    match (base.parse(), address.parse(), bits) {
        (Ok(IpAddr::V4(base)), Ok(IpAddr::V4(address)), Some(bits)) => {
            let differ = base.to_bits() ^ address.to_bits();
            differ.leading_zeros() >= bits.min(32)
        }
        (Ok(IpAddr::V6(base)), Ok(IpAddr::V6(address)), Some(bits)) => {
            let differ = base.to_bits() ^ address.to_bits();
            differ.leading_zeros() >= bits.min(128)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(scheme: &str, id: &str) -> Identity {
        Identity { scheme: scheme.to_owned(), id: id.to_owned() }
    }

    #[test]
    fn an_entry_covers_matching_identities() {
        let home = identity("ip", "127.0.0.1");
        assert!(Identity::anyone().covers(&home));
        assert!(identity("ip", "127.0.0.1").covers(&home));
        assert!(identity("ip", "127.0.0.0/8").covers(&home));
        assert!(identity("ip", "0.0.0.0/0").covers(&home));
        assert!(!identity("ip", "128.0.0.0/8").covers(&home));
        assert!(!identity("ip", "::1").covers(&home));
        assert!(!identity("ip", "127.0.0.0/x").covers(&home));
        assert!(identity("digest", "a:b").covers(&identity("digest", "a:b")));
        assert!(!identity("digest", "a:b").covers(&identity("digest", "a:c")));
        assert!(!identity("digest", "127.0.0.1").covers(&home));
        assert!(!identity("world", "nobody").covers(&home));
    }

    #[test]
    fn permissions_print_as_letters_and_reject_other_bits() {
        assert_eq!(Perms::ALL.to_string(), "cdrwa");
        assert_eq!((Perms::READ | Perms::ADMIN).to_string(), "ra");
        assert_eq!(Perms::from_bits(31), Some(Perms::ALL));
        assert_eq!(Perms::from_bits(32), None);
        assert!(Perms::ALL.intersects(Perms::DELETE) && !Perms::READ.intersects(Perms::WRITE));
    }
}
