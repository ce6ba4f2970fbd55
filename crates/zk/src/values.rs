//! Conversions between our values and those of the wire: revisions, stats, data, access lists, watch events.
//!
//! They cannot fail: the state machine rejects invalid values.

use bytes::Bytes;
use holdfast_service::{Notice, NoticeKind};
use holdfast_types::{AclEntry, Data, Identity, Perms, Revision, Stat};
use holdfast_zkwire as wire;
use holdfast_zkwire::{WatchEventType, WatchedEvent};

pub(crate) fn zxid(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

/// The revision of a zxid that a client sends; 0 for a negative one.
pub(crate) fn revision(zxid: i64) -> Revision {
    Revision(u64::try_from(zxid).unwrap_or(0))
}

/// The stat that clients see. Its `ephemeral_owner` is 0 except for ephemerals, as in ZooKeeper 3.8: ours is negative for
/// containers and for nodes with a time-to-live.
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

/// Data from a client; null and empty data differ.
pub(crate) fn data(data: Option<Bytes>) -> Data {
    data.map_or(Data::NULL, |bytes| Data::from(&*bytes))
}

/// Data for a client, without a copy.
pub(crate) fn wire_data(data: Data) -> Option<Bytes> {
    struct Owner(Data);
    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    (!data.is_null()).then(|| Bytes::from_owner(Owner(data)))
}

/// An access list from a client, without undefined permission bits.
pub(crate) fn acl(acl: Vec<wire::Acl>) -> Vec<AclEntry> {
    let entry = |entry: wire::Acl| {
        let bits = u32::try_from(entry.perms & wire::perms::ALL).unwrap_or(0);
        // In range: only the bits of `ALL` are left.
        let perms = Perms::from_bits(bits).unwrap_or(Perms::ALL);
        AclEntry { perms, who: Identity { scheme: entry.scheme, id: entry.id } }
    };
    acl.into_iter().map(entry).collect()
}

pub(crate) fn wire_acl(acl: Vec<AclEntry>) -> Vec<wire::Acl> {
    let entry = |entry: AclEntry| wire::Acl {
        perms: i32::try_from(entry.perms.bits()).unwrap_or(0),
        scheme: entry.who.scheme,
        id: entry.who.id,
    };
    acl.into_iter().map(entry).collect()
}

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
    fn access_lists_round_trip_without_undefined_bits() {
        let entry = |perms| wire::Acl { perms, scheme: "ip".to_owned(), id: "10.0.0.1".to_owned() };
        let back = |perms| wire_acl(acl(vec![entry(perms)])).remove(0).perms;
        assert_eq!([0, 1, 31, 33, -1].map(back), [0, 1, 31, 1, 31]);
        assert_eq!(acl(vec![wire::Acl::open()]), [AclEntry::open()]);
    }

    #[test]
    fn null_and_empty_data_stay_different() {
        for sent in [None, Some(Bytes::new()), Some(Bytes::from_static(b"x"))] {
            assert_eq!(wire_data(data(sent.clone())), sent);
        }
    }

    #[test]
    fn a_negative_zxid_is_revision_zero() {
        assert_eq!(revision(-1), Revision(0));
        assert_eq!(revision(7), Revision(7));
        assert_eq!(zxid(Revision(u64::MAX)), i64::MAX);
    }
}
