//! Values written with [`Query`] are read back, and bounds are checked.

use std::collections::BTreeMap;

use holdfast_types::{AclEntry, Identity, Perms};
use proptest::prelude::*;

use super::*;
use crate::parameters::recipe::{KEY, VALUE};
use crate::parameters::session::{CLOSED_INCARNATION, EVENTS_SINCE};
use crate::parameters::tree::{ACL, NAME, SESSION, STAT};
use crate::parameters::{LABELS, LIMIT, PAGE_TOKEN, TTL, WAIT, watch};
use crate::{ErrorCode, Query, WAIT_MAX};

crate::params! {
    #[derive(PartialEq)]
    struct AllParams {
        session: SessionName = SESSION,
        key: RequestId = KEY,
        ttl: Ttl = TTL,
        wait: Duration = WAIT,
        since: Revision = EVENTS_SINCE,
        incarnation: SessionId = CLOSED_INCARNATION,
        value: i64 = VALUE,
        limit: usize = LIMIT,
        page_token: String = PAGE_TOKEN,
        name: String = NAME,
        path: ZnodePath = watch::PATH,
        acl: Vec<AclEntry> = ACL,
        stat: bool = STAT,
        labels: Labels = LABELS,
    }
}

impl AllParams {
    fn query(&self) -> String {
        let query = Query::default()
            .with(&SESSION, &self.session)
            .with(&KEY, &self.key)
            .with(&TTL, &self.ttl)
            .with(&WAIT, &self.wait)
            .with(&EVENTS_SINCE, &self.since)
            .with(&CLOSED_INCARNATION, &self.incarnation)
            .with(&VALUE, &self.value)
            .with(&LIMIT, &self.limit)
            .with(&PAGE_TOKEN, &self.page_token)
            .with(&NAME, &self.name)
            .with(&watch::PATH, &self.path)
            .with_flag(&STAT, self.stat)
            .with_labels(&self.labels);
        let query = self.acl.iter().fold(query, |query, entry| query.with(&ACL, entry));
        query.target("").trim_start_matches('?').to_owned()
    }
}

fn name() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9%&=+_:#?-][a-zA-Z0-9%&=+._:#?-]{0,11}|[a-zé漢]{1,6}"
}

fn any_acl() -> impl Strategy<Value = Vec<AclEntry>> {
    let entry = ("[a-z]{1,6}", "[a-z0-9:/=+]{0,9}", 1..=31_u32).prop_map(|(scheme, id, bits)| {
        AclEntry { perms: Perms::from_bits(bits).unwrap(), who: Identity { scheme, id } }
    });
    proptest::collection::vec(entry, 0..4)
}

fn any_labels() -> impl Strategy<Value = Labels> {
    proptest::collection::btree_map(name(), "[ -~é]{1,10}", 0..4)
        .prop_map(|labels: BTreeMap<_, _>| Labels::new(labels).unwrap())
}

proptest! {
    #[test]
    fn values_read_back_as_written(
        (session, key) in (name(), name()),
        (ttl, wait) in (1_000..=86_400_000_u64, 0..=300_000_u64),
        (since, incarnation) in (0..FencingToken::END, 1..FencingToken::END),
        (value, limit, stat) in (any::<i64>(), 1..=1_000_usize, any::<bool>()),
        (page_token, name) in ("\\PC{1,8}", "[a-z %&+=?#é-]{0,8}"),
        path in "/[a-z %é]{1,8}",
        acl in any_acl(),
        labels in any_labels(),
    ) {
        let params = AllParams {
            session: SessionName::new(session).unwrap(),
            key: RequestId::new(key).unwrap(),
            ttl: Ttl::from_millis(ttl).unwrap(),
            wait: Duration::from_millis(wait),
            since: Revision(since),
            incarnation: SessionId(incarnation),
            value,
            limit,
            page_token,
            name,
            path: ZnodePath::new(path).unwrap(),
            acl,
            stat,
            labels,
        };
        prop_assert_eq!(AllParams::from_query(&params.query()).unwrap(), params);
    }
}

crate::params! {
    struct Bounded {
        ttl: Option<Ttl> = TTL,
        wait: Duration = WAIT,
        limit: usize = LIMIT,
        _since: Option<Revision> = EVENTS_SINCE,
    }
}

#[test]
fn values_out_of_bounds_are_rejected_with_the_bounds() {
    let read = |query| Bounded::from_query(query);
    assert_eq!(read("").unwrap().limit, crate::LIST_LIMIT_DEFAULT);
    assert_eq!(read("").unwrap().ttl, None);
    assert_eq!(read("ttl=1s").unwrap().ttl, Some(Ttl::MIN));
    assert_eq!(read("ttl=24h").unwrap().ttl, Some(Ttl::MAX));
    assert_eq!(read("wait=5m").unwrap().wait, WAIT_MAX);
    for (query, code, detail, hint) in [
        (
            "ttl=999ms",
            ErrorCode::BadDuration,
            "out of bounds: ttl is from 1s to 24h",
            "at least 1s",
        ),
        ("ttl=0", ErrorCode::BadDuration, "out of bounds: ttl is from 1s to 24h", "at least 1s"),
        ("ttl=2d", ErrorCode::BadDuration, "out of bounds: ttl is from 1s to 24h", "renewing"),
        ("ttl=24h1ms", ErrorCode::BadDuration, "out of bounds: ttl is from 1s to 24h", "renewing"),
        ("wait=5m1ms", ErrorCode::BadDuration, "wait is from 0s to 5m", "send the call again"),
        ("wait=forever", ErrorCode::BadDuration, "wait is from 0s to 5m", "send the call again"),
        ("wait=30", ErrorCode::BadDuration, "'30' has no unit", "did you mean 30s?"),
        ("limit=0", ErrorCode::InvalidArgument, "number from 1 to 1000", "page_token"),
        ("limit=1001", ErrorCode::InvalidArgument, "number from 1 to 1000", "page_token"),
        ("limit=many", ErrorCode::InvalidArgument, "number from 1 to 1000", "page_token"),
        ("limit=-1", ErrorCode::InvalidArgument, "number from 1 to 1000", "page_token"),
        ("since=%2B1", ErrorCode::InvalidArgument, "from 0 to 9007199254740991", "revision"),
        ("since=9007199254740992", ErrorCode::InvalidArgument, "from 0 to", "revision"),
    ] {
        let error = read(query).unwrap_err();
        assert_eq!(error.code, code, "{query}");
        assert!(error.detail.contains(detail), "{error:?}");
        assert!(error.hint.unwrap().contains(hint), "{query}");
    }
}
