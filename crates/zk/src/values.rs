//! Values of ours as values of the wire, and back: revisions, stats, access lists, notices.
//!
//! Owns conversions that cannot fail. Refuses to judge: what the machine does not accept, the machine says.

use bytes::Bytes;
use holdfast_service::{Notice, NoticeKind};
use holdfast_types::{AclEntry, Data, Identity, Perms, Revision, Stat};
use holdfast_zkwire as wire;
use holdfast_zkwire::{WatchEventType, WatchedEvent};

/// A revision, as clients count changes.
pub(crate) fn zxid(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

/// What a client says it has seen; nothing if that is below zero.
pub(crate) fn revision(zxid: i64) -> Revision {
    Revision(u64::try_from(zxid).unwrap_or(0))
}

/// A node's stat. Clients are shown the owners of ephemerals alone: the marks of containers and of nodes with a
/// time-to-live are below zero, and `ZooKeeper` 3.8 tells 0 for both.
pub(crate) fn stat(stat: &Stat) -> wire::Stat {
    let millis = |stamp: holdfast_types::Stamp| i64::try_from(stamp.0).unwrap_or(i64::MAX);
    wire::Stat {
        czxid: zxid(stat.czxid),
        mzxid: zxid(stat.mzxid),
        ctime: millis(stat.ctime),
        mtime: millis(stat.mtime),
        version: stat.version,
        cversion: stat.cversion,
        aversion: stat.aversion,
        ephemeral_owner: stat.ephemeral_owner.max(0),
        data_length: stat.data_length,
        num_children: stat.num_children,
        pzxid: zxid(stat.pzxid),
    }
}

/// Data that a client sends; null is another thing than empty.
pub(crate) fn data(data: Option<Bytes>) -> Data {
    data.map_or(Data::NULL, |bytes| Data::from(&*bytes))
}

/// Data that a client is told, without a copy.
pub(crate) fn shown_data(data: Data) -> Option<Bytes> {
    struct Owner(Data);
    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    (!data.is_null()).then(|| Bytes::from_owner(Owner(data)))
}

/// An access list that a client sends. Bits that mean nothing are left out.
pub(crate) fn acl(acl: Vec<wire::Acl>) -> Vec<AclEntry> {
    let entry = |entry: wire::Acl| {
        let bits = u32::try_from(entry.perms & wire::perms::ALL).unwrap_or(0);
        // In range: only the bits of `ALL` are left.
        let perms = Perms::from_bits(bits).unwrap_or(Perms::ALL);
        AclEntry { perms, who: Identity { scheme: entry.scheme, id: entry.id } }
    };
    acl.into_iter().map(entry).collect()
}

/// An access list that a client is told.
pub(crate) fn shown_acl(acl: Vec<AclEntry>) -> Vec<wire::Acl> {
    let entry = |entry: AclEntry| wire::Acl {
        perms: i32::try_from(entry.perms.bits()).unwrap_or(0),
        scheme: entry.who.scheme,
        id: entry.who.id,
    };
    acl.into_iter().map(entry).collect()
}

/// What a watch tells.
pub(crate) fn event(notice: &Notice) -> WatchedEvent {
    let kind = match notice.kind {
        NoticeKind::Created => WatchEventType::Created,
        NoticeKind::Deleted => WatchEventType::Deleted,
        NoticeKind::Changed => WatchEventType::DataChanged,
        NoticeKind::ChildrenChanged => WatchEventType::ChildrenChanged,
    };
    WatchedEvent::of(kind, notice.path.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_lists_survive_the_way_there_and_back_but_for_bits_without_meaning() {
        let entry = |perms| wire::Acl { perms, scheme: "ip".to_owned(), id: "10.0.0.1".to_owned() };
        let back = |perms| shown_acl(acl(vec![entry(perms)])).remove(0).perms;
        assert_eq!([0, 1, 31, 33, -1].map(back), [0, 1, 31, 1, 31]);
        assert_eq!(acl(vec![wire::Acl::open()]), [AclEntry::open()]);
    }

    #[test]
    fn no_data_and_empty_data_stay_two_things() {
        for sent in [None, Some(Bytes::new()), Some(Bytes::from_static(b"x"))] {
            assert_eq!(shown_data(data(sent.clone())), sent);
        }
    }

    #[test]
    fn what_a_client_has_seen_is_never_below_nothing() {
        assert_eq!(revision(-1), Revision(0));
        assert_eq!(revision(7), Revision(7));
        assert_eq!(zxid(Revision(u64::MAX)), i64::MAX);
    }
}
