//! The bodies that a transaction accepts, and the errors for all other bodies.

use holdfast_api::parameters::REQUEST;
use holdfast_types::{
    AclEntry, Create, CreateKind, Data, FencingToken, LockName, Perms, RequestNumber,
};
use proptest::prelude::*;

use super::*;

fn parse(body: &str) -> Result<Items, ParamError> {
    read(None, body).map(|(_, items)| items)
}

/// The request number and the items.
fn read(query: Option<&str>, body: &str) -> Result<(Option<RequestNumber>, Items), ParamError> {
    let mut fields = RawParams::parse(query, &OPERATION.all_params())?;
    let mut lists = Lists::read(body.as_bytes()).map_err(|unread| match unread {
        Unread::Malformed(error) => error,
        Unread::TooMany => ParamError::new(ErrorCode::PayloadTooLarge, "too many items"),
    })?;
    fields.merge_pairs(std::mem::take(&mut lists.rest), &OPERATION.all_params())?;
    let params = TxnParams::read(&fields)?;
    let items = items(lists, params.session.is_some())?;
    Ok((ParamField::read(&REQUEST, &fields)?, items))
}

fn at(path: &str) -> ZnodePath {
    ZnodePath::new(path).unwrap()
}

#[test]
fn every_condition_is_parsed() {
    let body = r#"{"if":[{"path":"/a","exists":true},{"path":"/a","exists":false},
        {"path":"/a","version":3},{"path":"/a","data":""},{"data_base64":"aGk=","path":"/a"},
        {"lock":"orders","holds":42},{"session":"me","open":true}]}"#;
    let (path, lock) = (at("/a"), LockName::new("orders").unwrap());
    let expected = [
        Condition::Exists { path: path.clone(), exists: true },
        Condition::Exists { path: path.clone(), exists: false },
        Condition::Version { path: path.clone(), version: 3 },
        Condition::Data { path: path.clone(), data: vec![] },
        Condition::Data { path, data: b"hi".to_vec() },
        Condition::Holds { lock, token: FencingToken(42) },
        Condition::SessionOpen { session: SessionName::new("me").unwrap() },
    ];
    assert_eq!(parse(body).unwrap().conditions, expected);
}

/// The text after item 1,001 is no JSON: nothing reads it.
#[test]
fn the_first_item_above_the_bound_ends_the_reading() {
    let items = |count| vec![r#"{"check":"/a"}"#; count].join(",");
    let whole = format!(r#"{{"if":[],"then":[{}],"else":[{}]}}"#, items(600), items(400));
    assert!(Lists::read(whole.as_bytes()).is_ok());
    for body in [
        format!(r#"{{"then":[{},{{"check":"/a"}},?"#, items(1_000)),
        format!(r#"{{"if":[{}],"else":[{},{{}}!"#, items(600), items(400)),
    ] {
        assert!(matches!(Lists::read(body.as_bytes()), Err(Unread::TooMany)), "{body}");
    }
    let below = format!(r#"{{"then":[{},?"#, items(999));
    assert!(matches!(Lists::read(below.as_bytes()), Err(Unread::Malformed(_))));
}

#[test]
fn an_item_with_many_fields_is_rejected() {
    let fields = vec![r#""data":"""#; 300].join(",");
    let error = parse(&format!(r#"{{"then":[{{{fields}}}]}}"#)).unwrap_err();
    assert!(error.detail.contains("more than 256 fields"), "{error:?}");
}

/// An empty list would deny every client, but could be read as no list, which allows every client.
#[test]
fn an_empty_access_list_is_rejected_and_not_treated_as_absent() {
    for body in
        [r#"{"then":[{"create":"/a","acl":[]}]}"#, r#"{"then":[{"set_acl":"/a","acl":[]}]}"#]
    {
        let error = parse(body).unwrap_err();
        assert!(error.detail.contains("'acl' in the body is an empty list"), "{error:?}");
    }
}

#[test]
fn every_operation_is_parsed() {
    let body = r#"{"session":"me","request":1,"then":[
        {"create":"/q/n-","data":"x","sequential":true,"ephemeral":true},
        {"create":"/c","ttl":"1h","acl":["world:anyone:r"],"parents":true},
        {"set":"/a","data_base64":"AAE=","version":3},{"delete":"/b","recursive":true},
        {"set_acl":"/a","acl":["auth::cdrwa"]}],"else":[{"check":"/a","version":0}]}"#;
    let (request, items) = read(None, body).unwrap();
    let create = Create {
        directory: at("/q"),
        name: "n-".to_owned(),
        data: b"x".to_vec().into(),
        kind: CreateKind::Ephemeral,
        sequential: true,
        acl: None,
        parents: false,
    };
    let read = AclEntry { perms: Perms::READ, ..AclEntry::open() };
    let kept = Create {
        directory: ZnodePath::root(),
        name: "c".to_owned(),
        data: Data::default(),
        kind: CreateKind::Ttl { ms: 3_600_000 },
        sequential: false,
        acl: Some(vec![read]),
        parents: true,
    };
    assert_eq!(items.then[..2], [Op::Create(create), Op::Create(kept)]);
    let set = Op::SetData { path: at("/a"), data: vec![0, 1].into(), version: Some(3) };
    let delete = Op::Delete { path: at("/b"), version: None, recursive: true };
    assert_eq!(items.then[2..4], [set, delete]);
    assert!(matches!(&items.then[4], Op::SetAcl { acl, .. } if acl[0].who.scheme == "auth"));
    assert_eq!(items.otherwise, [Op::Check { path: at("/a"), version: Some(0) }]);
    assert_eq!(request, Some(RequestNumber(1)));
}

#[test]
fn an_invalid_transaction_is_rejected_with_the_position_and_a_hint() {
    for (body, detail, hint) in [
        (r#"{"iff":[],"then":[]}"#, "unknown parameter 'iff'", "did you mean 'if'?"),
        (r#"{"then":[{"craete":"/a"}]}"#, "then[0]: an operation", "did you mean 'create'?"),
        (
            r#"{"then":[{"check":"/a"},{"set":"/a","dta":"x"}]}"#,
            "then[1]: unknown parameter 'dta'",
            "did you mean 'data'? a set takes",
        ),
        (r#"{"if":[{"path":"/a","verison":1}]}"#, "if[0]: ", "did you mean 'version'?"),
        (r#"{"if":[{"lock":"a","hold":1}]}"#, "if[0]: unknown parameter 'hold'", "'holds'"),
        (r#"{"if":[{"lock":"a"}]}"#, "if[0]: 'holds' is required", "the token of your grant"),
        (
            r#"{"if":[{"session":"me","open":false}]}"#,
            "if[0]: 'open' is required",
            r#""open":true"#,
        ),
        (r#"{"then":[{"create":"/a","set":"/a"}]}"#, "then[0]: 'create' and 'set'", "one of"),
        (r#"{"then":[{"set":"/a"}]}"#, "then[0]: 'set' requires 'data'", r#""data":"""#),
        (r#"{"else":[{"set_acl":"/a"}]}"#, "else[0]: 'set_acl' requires 'acl'", "cdrwa"),
        (r#"{"then":[{"check":"/a","version":-1}]}"#, "then[0]: 'version' is not", "leave it out"),
        (r#"{"then":[{"create":"/a","ttl":"1h","container":true}]}"#, "then[0]: ", "choose one"),
        (r#"{"then":[{"set":"/a","data_base64":"*"}]}"#, "then[0]: 'data_base64'", "padding"),
        (r#"{"then":[{"check":"/a/"}]}"#, "then[0]: the path has", ""),
        (r#"{"then":[{"check":"/a","check":"/b"}]}"#, "then[0]: 'check' is given twice", ""),
        (
            r#"{"then":[],"then":[]}"#,
            "the body is not a transaction: duplicate field `then`",
            "send {",
        ),
        (r#"{"then":{"check":"/a"}}"#, "the body is not a transaction: ", "send {"),
        (r#"{"then":["check"]}"#, "the body is not a transaction: ", "send {"),
        ("{}", "a transaction without", "send {"),
        ("", "the body is not a transaction: ", "send {"),
    ] {
        let error = parse(body).unwrap_err();
        assert!(error.detail.starts_with(detail), "{body}: {}", error.detail);
        assert!(error.hint.unwrap_or_default().contains(hint), "{body}");
    }
    let error = read(Some("then=x"), r#"{"then":[]}"#).unwrap_err();
    assert_eq!(error.detail, "'then' is valid only in the body");
}

proptest! {
    #[test]
    fn any_body_is_parsed_or_rejected_with_a_short_error(
        body in "\\PC{0,40}|(\\{\"(if|then|else)\":\\[\\{\"(path|set|create|lock)\":[\"0-9a-z/]{0,9}\\}?\\]?\\}?)",
    ) {
        if let Err(error) = parse(&body) {
            prop_assert!(error.detail.len() < 400 && error.hint.map_or(0, |h| h.len()) < 300);
        }
    }
}
