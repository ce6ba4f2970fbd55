//! Bounds of the tree's parameters, and that what clients write is what the server reads.

use holdfast_types::{Identity, Perms, Revision};
use proptest::prelude::*;

use super::*;
use crate::WatchParams;

fn put(query: &str) -> Result<PutParams, Refusal> {
    PutParams::parse(&Fields::parse(Some(query), &PutParams::KEYS)?, None)
}

fn post(query: &str) -> Result<PostParams, Refusal> {
    PostParams::parse(&Fields::parse(Some(query), &PostParams::KEYS)?, None)
}

fn node(query: &str) -> Result<NodeParams, Refusal> {
    NodeParams::parse(&Fields::parse(Some(query), &NodeParams::KEYS)?)
}

fn watch(query: &str, resume: Option<&str>) -> Result<WatchParams, Refusal> {
    WatchParams::parse(&Fields::parse(Some(query), &WatchParams::KEYS)?, resume)
}

#[test]
fn a_put_creates_or_replaces_unless_it_says_what_to_create() {
    assert_eq!(put("").unwrap(), PutParams::default());
    assert!(!put("parents&session=me&request=r1").unwrap().only_creates());
    for query in ["ephemeral&session=me", "container", "ttl=1h", "acl=world:anyone:r"] {
        assert!(put(query).unwrap().only_creates(), "{query}");
    }
    let params = put("ttl=1h&acl=world:anyone:r&acl=auth::cdrwa").unwrap();
    assert_eq!(params.make.kind, Some(CreateKind::Ttl { ms: 3_600_000 }));
    assert_eq!(params.make.acl.map(|acl| acl.len()), Some(2));
}

#[test]
fn kinds_exclude_each_other_and_ephemerals_need_a_session() {
    for query in
        ["ephemeral&session=me&ttl=30s", "container&ttl=1h", "ephemeral&container&session=a"]
    {
        let refusal = put(query).unwrap_err();
        assert!(refusal.detail.ends_with("are two kinds of node"), "{}", refusal.detail);
    }
    assert!(
        put("ephemeral&session=me&ttl=30s").unwrap_err().hint.unwrap().contains("/v1/sessions")
    );
    assert_eq!(put("ephemeral").unwrap_err().parameter.as_deref(), Some("session"));
    assert_eq!(put("ttl=3600").unwrap_err().code, ErrorCode::BadDuration);
    assert_eq!(put("ttl=0s").unwrap_err().code, ErrorCode::BadDuration);
    assert_eq!(put("version=3").unwrap_err().code, ErrorCode::InvalidArgument);
}

#[test]
fn a_request_id_needs_a_session_and_is_given_once() {
    let fields = |query| Fields::parse(Some(query), &PutParams::KEYS).unwrap();
    assert_eq!(put("request=r1").unwrap_err().parameter.as_deref(), Some("session"));
    let by_header = ChangeParams::parse(&fields("session=me"), Some("r1")).unwrap();
    assert_eq!(by_header, put("session=me&request=r1").unwrap().change);
    let twice = ChangeParams::parse(&fields("session=me&request=r1"), Some("r1")).unwrap_err();
    assert!(twice.detail.contains("given twice"), "{}", twice.detail);
    assert!(ChangeParams::parse(&fields("session=me"), Some("a b")).is_err());
}

#[test]
fn a_post_says_that_it_is_sequential() {
    assert_eq!(post("").unwrap_err().parameter.as_deref(), Some("sequential"));
    assert_eq!(post("sequential").unwrap().name, "");
    assert_eq!(post("sequential&name=job-").unwrap().name, "job-");
    assert_eq!(post("sequential&name=a/b").unwrap_err().code, ErrorCode::BadName);
}

#[test]
fn a_read_asks_one_question() {
    assert_eq!(node("").unwrap(), NodeParams::default());
    assert_eq!(node("children&limit=2").unwrap().limit, 2);
    assert_eq!(
        node("recursive&page_token=/a").unwrap().after_path().unwrap().unwrap().as_str(),
        "/a"
    );
    assert!(node("recursive&page_token=a").unwrap().after_path().is_err());
    for query in ["stat&children", "limit=5", "stat&page_token=x", "children&limit=0", "cildren"] {
        assert_eq!(node(query).unwrap_err().code, ErrorCode::InvalidArgument, "{query}");
    }
    assert!(node("cildren").unwrap_err().hint.unwrap().starts_with("did you mean 'children'?"));
}

#[test]
fn a_watch_has_a_place_and_may_resume() {
    let params = watch("prefix=locks/", None).unwrap();
    assert_eq!((params.place.as_str(), params.exact, params.since), ("/locks/", false, None));
    assert_eq!(params.wait, Duration::from_secs(30));
    assert_eq!(watch("path=cfg/x", None).unwrap().place, "/cfg/x");
    assert_eq!(watch("prefix=/&since=7", Some("9")).unwrap().since, Some(Revision(9)));
    assert!(watch("", None).unwrap_err().hint.unwrap().contains("?prefix=/"));
    for query in [
        "prefix=/&path=/a",
        "path=/a/",
        "prefix=/&since=x",
        "prefix=/&since=-1",
        "prefix=/&since=9007199254740992",
    ] {
        assert!(watch(query, None).is_err(), "{query}");
    }
    assert_eq!(
        watch("prefix=/", Some("")).unwrap_err().parameter.as_deref(),
        Some("Last-Event-ID")
    );
    assert_eq!(watch("prefix=/&wait=10", None).unwrap_err().code, ErrorCode::BadDuration);
}

fn any_kind() -> impl Strategy<Value = Option<CreateKind>> {
    prop_oneof![
        Just(None),
        Just(Some(CreateKind::Ephemeral)),
        Just(Some(CreateKind::Container)),
        (1..=31_536_000_000_u64).prop_map(|ms| Some(CreateKind::Ttl { ms })),
    ]
}

fn any_acl() -> impl Strategy<Value = Option<Vec<AclEntry>>> {
    let entry = ("[a-z]{1,6}", "[a-z0-9:/=+]{0,9}", 1..=31_u32).prop_map(|(scheme, id, bits)| {
        AclEntry { perms: Perms::from_bits(bits).unwrap(), who: Identity { scheme, id } }
    });
    proptest::option::of(proptest::collection::vec(entry, 1..4))
}

proptest! {
    #[test]
    fn changes_read_back_as_written(
        kind in any_kind(),
        acl in any_acl(),
        request in proptest::option::of("[a-zA-Z0-9%&=+_:#?-]{1,12}"),
        name in "[a-z %&+=?#é-]{0,8}",
        (parents, recursive, redirect) in any::<(bool, bool, bool)>(),
    ) {
        let session = SessionName::new("me").ok();
        let request = request.map(|id| RequestId::new(id).unwrap());
        let change = ChangeParams { session, request, redirect };
        let make = MakeParams { kind, acl, parents };
        let params = PutParams { change: change.clone(), make: make.clone() };
        prop_assert_eq!(put(&params.to_query()).unwrap(), params);
        let params = PostParams { change: change.clone(), make, name };
        prop_assert_eq!(post(&params.to_query()).unwrap(), params);
        let params = DeleteParams { change, recursive };
        let query = params.to_query();
        let fields = Fields::parse(Some(&query), &DeleteParams::KEYS).unwrap();
        prop_assert_eq!(DeleteParams::parse(&fields, None).unwrap(), params);
    }

    #[test]
    fn reads_and_watches_read_back_as_written(
        which in 0..5_usize,
        limit in 1..=1_000_usize,
        page_token in proptest::option::of("\\PC{1,8}"),
        (stale, exact) in any::<(bool, bool)>(),
        since in proptest::option::of(0..1_u64 << 53),
        wait in 0..=300_000_u64,
    ) {
        let aspects =
            [Aspect::Data, Aspect::Stat, Aspect::Acl, Aspect::Children, Aspect::Recursive];
        let read = ReadParams { stale, redirect: false };
        let mut params = NodeParams { aspect: aspects[which], limit, page_token, read };
        if which < 3 {
            (params.limit, params.page_token) = (LIST_LIMIT_DEFAULT, None);
        }
        prop_assert_eq!(node(&params.to_query()).unwrap(), params);
        let (place, wait) = ("/a b/é%".to_owned(), Duration::from_millis(wait));
        let params = WatchParams { place, exact, since: since.map(Revision), wait };
        prop_assert_eq!(watch(&params.to_query(), None).unwrap(), params);
    }
}
