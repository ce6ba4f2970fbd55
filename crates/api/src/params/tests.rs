//! Bounds of the parameters, and that what clients write is what the server reads.

use std::collections::BTreeMap;

use proptest::prelude::*;

use holdfast_types::{
    Attempt, FencingToken, Mode, Owner, QueueOrder, ReleaseTarget, SegmentChoice, Segments,
    SessionName,
};

use super::*;
use crate::{ErrorCode, Refusal};

#[track_caller]
fn acquire(query: &str) -> Result<AcquireParams, Refusal> {
    AcquireParams::parse(&Fields::parse(Some(query), &AcquireParams::KEYS)?)
}

#[track_caller]
fn refused(query: &str) -> (ErrorCode, String, String) {
    let refusal = acquire(query).unwrap_err();
    (refusal.code, refusal.detail, refusal.hint.unwrap_or_default())
}

#[test]
fn an_acquire_without_parameters_takes_the_defaults() {
    assert_eq!(acquire("").unwrap(), AcquireParams::default());
    assert_eq!(acquire("mode=exclusive").unwrap().mode, Some(Mode::Exclusive));
    assert_eq!(acquire("mode=shared").unwrap().mode, Some(Mode::Shared));
}

#[test]
fn a_ttl_keeps_its_bounds() {
    assert_eq!(acquire("ttl=1s").unwrap().ttl, Some(Ttl::MIN));
    assert_eq!(acquire("ttl=24h").unwrap().ttl, Some(Ttl::MAX));
    for query in ["ttl=999ms", "ttl=0s", "ttl=24h1ms", "ttl=8760h"] {
        let (code, detail, hint) = refused(query);
        assert_eq!(code, ErrorCode::BadDuration, "{query}");
        assert!(detail.ends_with("out of bounds: a ttl is from 1s to 24h"), "{detail}");
        assert!(hint.contains("renewing"), "{hint}");
    }
}

#[test]
fn a_wait_is_capped_and_says_so() {
    assert_eq!(acquire("wait=5m").unwrap().wait, WAIT_MAX);
    assert_eq!(acquire("wait=0s").unwrap().wait, Duration::ZERO);
    let (code, detail, hint) = refused("wait=5m1ms");
    assert_eq!(code, ErrorCode::BadDuration);
    assert_eq!(detail, "wait: '5m1ms' is out of bounds: one wait is from 0s to 5m");
    assert!(hint.contains("send the call again"), "{hint}");
}

#[test]
fn a_bare_number_is_refused_in_query_and_body() {
    let (code, detail, hint) = refused("ttl=30");
    assert_eq!((code, detail.as_str()), (ErrorCode::BadDuration, "ttl: '30' has no unit"));
    assert_eq!(hint, "did you mean 30s?");
    let mut fields = Fields::default();
    fields.merge_json(br#"{"wait":10}"#, &AcquireParams::KEYS).unwrap();
    let refusal = AcquireParams::parse(&fields).unwrap_err();
    assert_eq!(refusal.hint.as_deref(), Some("did you mean 10s?"));
}

#[test]
fn terms_have_bounds() {
    let terms = |query: &str| acquire(query).unwrap().terms;
    assert_eq!(terms("permits=10000").permits, Some(10_000));
    assert_eq!(terms("limit=8").limit, Some(8));
    assert_eq!((terms("priority=9").priority, terms("").priority), (9, 0));
    assert_eq!([terms("reentrant").reentrant, terms("reentrant=false").reentrant], [true, false]);
    assert_eq!(terms("max_hold=720h").max_hold, Some(Duration::from_hours(720)));
    assert_eq!(terms("value=web-3%3A8080").value.as_deref(), Some("web-3:8080"));
    let long = format!("value={}", "x".repeat(4097));
    for query in [
        "permits=0",
        "permits=10001",
        "limit=0",
        "limit=many",
        "priority=10",
        "permits=-1",
        long.as_str(),
    ] {
        assert_eq!(refused(query).0, ErrorCode::InvalidArgument, "{query}");
    }
    for query in ["max_hold=0s", "max_hold=720h1ms", "min_hold=5"] {
        assert_eq!(refused(query).0, ErrorCode::BadDuration, "{query}");
    }
}

#[test]
fn a_change_of_rules_keeps_its_bounds() {
    let parse = |query| PolicyParams::parse(&Fields::parse(Some(query), &PolicyParams::KEYS)?);
    assert_eq!(parse("limit=none").unwrap().limit, Some(None));
    assert_eq!(parse("limit=3").unwrap().limit, Some(Some(3)));
    assert_eq!(parse("segments=none").unwrap().segments, Some(None));
    assert_eq!(parse("order=writer-first").unwrap().order, Some(QueueOrder::WriterFirst));
    assert_eq!(parse("detect_deadlocks=false").unwrap().detect_deadlocks, Some(false));
    assert_eq!(parse("lock_delay=0s").unwrap().lock_delay, Some(Duration::ZERO));
    for query in ["", "redirect"] {
        let refusal = parse(query).unwrap_err();
        assert_eq!(refusal.code, ErrorCode::InvalidArgument, "{query}");
        assert!(refusal.hint.unwrap().contains("PUT acquires it"), "{query}");
    }
    for query in ["limit=0", "limit=nobody", "order=lifo", "segments=1025"] {
        assert_eq!(parse(query).unwrap_err().code, ErrorCode::InvalidArgument, "{query}");
    }
    for query in ["lock_delay=61s", "cooldown=169h", "ageing=25h", "cooldown=5"] {
        assert_eq!(parse(query).unwrap_err().code, ErrorCode::BadDuration, "{query}");
    }
    let full = "limit=2&order=reader-first&ageing=1s&lock_delay=5s&cooldown=1m&detect_deadlocks=true&segments=8";
    assert_eq!(parse(full).unwrap().to_query(), full);
}

#[test]
fn a_parameter_of_another_call_is_rejected_by_name() {
    assert_eq!(acquire("mode=upgradable").unwrap().mode, Some(Mode::Upgradable));
    assert_eq!(refused("mode=odd").0, ErrorCode::InvalidArgument);
    let fields = Fields::parse(Some("session=me&permits=1"), &ReleaseParams::KEYS);
    let refusal = fields.unwrap_err();
    assert_eq!(refusal.code, ErrorCode::InvalidArgument);
    assert!(refusal.detail.contains("permits"), "{refusal:?}");
}

#[test]
fn a_segment_is_a_number_below_their_number_or_any() {
    let cut = |query: &str| acquire(query).unwrap().terms.segments;
    let of = |count, choice| Some(Segments { count, choice });
    assert_eq!(cut("session=me"), None);
    assert_eq!(cut("segments=8"), of(Some(8), SegmentChoice::Any));
    assert_eq!(cut("segments=8&segment=any"), of(Some(8), SegmentChoice::Any));
    assert_eq!(cut("segments=1024&segment=1023"), of(Some(1_024), SegmentChoice::At(1_023)));
    assert_eq!(cut("segment=3"), of(None, SegmentChoice::At(3)));
    assert_eq!(cut("segment=any"), of(None, SegmentChoice::Any));
    for query in
        ["segments=0", "segments=1025", "segment=1024", "segment=best", "segments=8&segment=8"]
    {
        assert_eq!(refused(query).0, ErrorCode::InvalidArgument, "{query}");
    }
    assert_eq!(refused("segments=8&segment=9").1, "there is no segment 9 of 8");
}

#[test]
fn names_in_parameters_are_checked() {
    let long = format!("session={}", "a".repeat(129));
    for query in ["session=a/b", "owner=a%20b", "label.a/b=1", long.as_str()] {
        assert_eq!(refused(query).0, ErrorCode::BadName, "{query}");
    }
    let many: Vec<String> = (0..17).map(|i| format!("label.k{i}=v")).collect();
    assert_eq!(refused(&many.join("&")).1, "17 labels: at most 16 are allowed");
}

#[test]
fn a_release_needs_a_session() {
    let fields = Fields::parse(None, &ReleaseParams::KEYS).unwrap();
    let refusal = ReleaseParams::parse(&fields).unwrap_err();
    assert_eq!(refusal.parameter.as_deref(), Some("session"));
}

#[test]
fn a_page_has_a_limit() {
    let parse = |query| ListParams::parse(&Fields::parse(Some(query), &ListParams::LOCK_KEYS)?);
    assert_eq!(parse("limit=1000&held").unwrap().limit, 1_000);
    for query in ["limit=0", "limit=1001", "limit=many", "limit=-1"] {
        let refusal = parse(query).unwrap_err();
        assert_eq!(refusal.detail, "'limit' is not a number from 1 to 1000", "{query}");
    }
}

#[test]
fn a_token_is_a_number_below_two_to_the_53() {
    let parse = |query| FenceParams::parse(&Fields::parse(Some(query), &FenceParams::KEYS)?);
    assert_eq!(parse("token=4812").unwrap().token, FencingToken(4_812));
    assert_eq!(
        parse("token=9007199254740991&mode=monotonic").unwrap().mode,
        FenceModeParam::Monotonic
    );
    for query in
        ["", "token=x", "token=-1", "token=%2B1", "token=9007199254740992", "token=1&mode=old"]
    {
        assert_eq!(parse(query).unwrap_err().code, ErrorCode::InvalidArgument, "{query}");
    }
}

fn flat() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9%&=+_:#?-][a-zA-Z0-9%&=+._:#?-]{0,11}|[a-zé漢]{1,6}"
}

fn any_labels() -> impl Strategy<Value = Labels> {
    proptest::collection::btree_map(flat(), "[ -~é]{1,10}", 0..4)
        .prop_map(|labels: BTreeMap<_, _>| Labels::new(labels).unwrap())
}

fn any_terms() -> impl Strategy<Value = TermsParams> {
    let count = || proptest::option::of(1..=10_000_u32);
    let hold = || proptest::option::of((1..=2_592_000_000_u64).prop_map(Duration::from_millis));
    let value = proptest::option::of(flat());
    let choice = prop_oneof![Just(SegmentChoice::Any), (0..1_024_u32).prop_map(SegmentChoice::At),];
    let segments = (proptest::option::of(Just(1_024_u32)), choice)
        .prop_map(|(count, choice)| Segments { count, choice });
    let segments = proptest::option::of(segments);
    (count(), count(), 0..=9_u8, any::<bool>(), hold(), hold(), value, segments).prop_map(
        |(permits, limit, priority, reentrant, max_hold, min_hold, value, segments)| TermsParams {
            permits,
            limit,
            priority,
            reentrant,
            max_hold,
            min_hold,
            value,
            segments,
        },
    )
}

#[test]
fn a_connection_that_holds_needs_no_session() {
    assert!(acquire("hold=connection&ttl=5s&label.host=a").unwrap().for_connection);
    assert_eq!(acquire("hold=connection").unwrap().to_query(), "hold=connection");
    for query in ["hold=connection&session=me", "hold=session", "hold=connection&attempt=1"] {
        assert_eq!(acquire(query).unwrap_err().code, ErrorCode::InvalidArgument, "{query}");
    }
}

#[test]
fn a_lock_is_taken_from_its_holders_with_a_reason_or_handed_on_whole() {
    let broken =
        |query: &str| BreakParams::parse(&Fields::parse(Some(query), &ReleaseParams::KEYS)?);
    assert_eq!(broken("session=me").unwrap(), None);
    let breaking = broken("force&reason=host+is+gone").unwrap().unwrap();
    assert_eq!(broken(&breaking.to_query()).unwrap(), Some(breaking));
    for query in [
        "session=me&token=1&attempt=2",
        "session=me&token=0",
        "session=me&attempt=9223372036854775808",
        "to=you",
    ] {
        let fields = Fields::parse(Some(query), &ReleaseParams::KEYS).unwrap();
        assert!(ReleaseParams::parse(&fields).is_err(), "{query}");
    }
    for query in ["session=me&attempt=0", "session=me&attempt=x"] {
        assert_eq!(acquire(query).unwrap_err().code, ErrorCode::InvalidArgument, "{query}");
    }
    assert!(acquire("attempt=1").unwrap_err().detail.contains("needs 'session'"));
    for query in
        ["force", "session=me&reason=x", "force&reason=x&session=me", "force&reason=x&to=you"]
    {
        assert_eq!(broken(query).unwrap_err().code, ErrorCode::InvalidArgument, "{query}");
    }
    let release =
        |query: &str| ReleaseParams::parse(&Fields::parse(Some(query), &ReleaseParams::KEYS)?);
    let handed = release("session=me&to=you&to_owner=t1").unwrap();
    assert_eq!(release(&handed.to_query()).unwrap(), handed);
    for query in ["session=me&to_owner=t1", "session=me&to=you&attempt=1", "to=you"] {
        assert_eq!(release(query).unwrap_err().code, ErrorCode::InvalidArgument, "{query}");
    }
    let ask = |query: &str| AskParams::parse(&Fields::parse(Some(query), &AskParams::KEYS)?);
    assert_eq!(ask("ask=release").unwrap().deadline, Duration::from_secs(30));
    let asked = ask("ask=release&session=me&owner=o&reason=please&deadline=5s&revoke").unwrap();
    assert_eq!(ask(&asked.to_query()).unwrap(), asked);
    assert_eq!(ask("ask=release&owner=o").unwrap_err().code, ErrorCode::InvalidArgument);
    assert_eq!(ask("ask=release&deadline=0s").unwrap_err().code, ErrorCode::BadDuration);
    for query in ["", "session=me", "ask=acquire", "ttl=30s"] {
        let refusal = ask(query).unwrap_err();
        assert_eq!(refusal.code, ErrorCode::InvalidArgument, "{query}");
        assert!(refusal.hint.unwrap().contains("PUT"), "{query}");
    }
}

proptest! {
    #[test]
    fn an_acquire_reads_back_as_written(
        session in proptest::option::of(flat()),
        owner in proptest::option::of(flat()),
        attempt in proptest::option::of(1..=Attempt::MAX.0),
        ttl in proptest::option::of(1_000..=86_400_000_u64),
        wait in 0..=300_000_u64,
        mode in proptest::option::of(proptest::sample::select(Mode::ALL.to_vec())),
        terms in any_terms(),
        labels in any_labels(),
        redirect: bool,
    ) {
        let session_is_named = session.is_some();
        let params = AcquireParams {
            session: session.map(|name| SessionName::new(name).unwrap()),
            owner: owner.map(|name| Owner::new(name).unwrap()),
            attempt: attempt.filter(|_| session_is_named).map(Attempt),
            ttl: ttl.map(|ms| Ttl::from_millis(ms).unwrap()),
            wait: Duration::from_millis(wait),
            mode,
            labels,
            for_connection: false,
            terms,
            redirect,
        };
        prop_assert_eq!(acquire(&params.to_query()).unwrap(), params);
    }

    #[test]
    fn a_list_reads_back_as_written(
        prefix in "[a-z/%& ]{0,8}",
        (held, waiting, stale) in any::<(bool, bool, bool)>(),
        limit in 1..=1_000_usize,
        page_token in proptest::option::of("\\PC{1,8}"),
    ) {
        let read = ReadParams { stale, redirect: false };
        let session = SessionName::new("me").ok();
        let sort = Sort::Name;
        let params = ListParams { prefix, held, waiting, session, limit, sort, page_token, read };
        let query = params.to_query();
        let fields = Fields::parse(Some(&query), &ListParams::LOCK_KEYS).unwrap();
        prop_assert_eq!(ListParams::parse(&fields).unwrap(), params);
    }

    #[test]
    fn other_calls_read_back_as_written(
        session in flat(),
        attempt in proptest::option::of(1..=Attempt::MAX.0),
        token in 1..FencingToken::END,
    ) {
        let release = ReleaseParams {
            session: SessionName::new(session).unwrap(),
            owner: None,
            target: attempt.map_or(
                ReleaseTarget::Hold(FencingToken(token)),
                |attempt| ReleaseTarget::Attempt(Attempt(attempt)),
            ),
            to: None,
            redirect: true,
        };
        let query = release.to_query();
        let fields = Fields::parse(Some(&query), &ReleaseParams::KEYS).unwrap();
        prop_assert_eq!(ReleaseParams::parse(&fields).unwrap(), release);
        let fence = FenceParams {
            token: FencingToken(token),
            mode: FenceModeParam::Monotonic,
            read: ReadParams { stale: true, redirect: false },
        };
        let query = fence.to_query();
        let fields = Fields::parse(Some(&query), &FenceParams::KEYS).unwrap();
        prop_assert_eq!(FenceParams::parse(&fields).unwrap(), fence);
    }
}
