//! `POST /v1/txn`: conditions over nodes, locks and sessions, and what is done if they hold, or else.
//!
//! Owns the form of the body. Every object in it is read like the fields of a call: unknown keys are refused with the
//! nearest known one, keys given twice are refused. How many operations there may be is decided by the machine; how
//! large the body may be by the caller.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};

use holdfast_types::{Condition, Create, CreateKind, Data, FencingToken, LockName, Op};
use holdfast_types::{NameError, SessionName, ZnodePath};

use crate::acl::parse_list;
use crate::fields::Pairs;
use crate::param::{Form, Param};
use crate::params::about;
use crate::refusal::nearest;
use crate::{ChangeParams, ErrorCode, Fields, MakeParams, ParamList, Refusal};

mod keys;

use keys::{ON_LOCK, ON_PATH, ON_SESSION, VERBS, of_verb};
#[cfg(feature = "schema")]
pub(crate) use keys::{condition_schema, operation_schema};

const FORM: &str =
    r#"send {"if":[{"path":"/a","version":3}],"then":[{"set":"/a","data":"x"}],"else":[]}"#;

/// What a transaction asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxnParams {
    /// For whom.
    pub change: ChangeParams,
    /// All must hold; with none, they hold.
    pub conditions: Vec<Condition>,
    /// Done if they hold.
    pub then: Vec<Op>,
    /// Done if they do not.
    pub otherwise: Vec<Op>,
}

impl TxnParams {
    /// What the call takes; the three lists in the body alone.
    pub const KEYS: ParamList = ParamList {
        what: "a transaction",
        params: &[
            about::SESSION,
            about::REQUEST,
            Param::of("if", Form::Conditions, "All of these must hold; none always do"),
            Param::of("then", Form::Operations, "Done if they hold, all or nothing"),
            Param::of("else", Form::Operations, "Done if they do not, all or nothing"),
            about::REDIRECT,
        ],
    };

    /// Reads query and body; `request` is the request id that came as a header.
    ///
    /// # Errors
    /// [`Refusal`] says in which item of which list the trouble is, and what to write instead.
    pub fn parse(query: Option<&str>, body: &[u8], request: Option<&str>) -> Result<Self, Refusal> {
        let mut fields = Fields::parse(query, &Self::KEYS)?;
        if let Some(list) =
            ["if", "then", "else"].into_iter().find(|list| fields.value(list).is_some())
        {
            let detail = format!("'{list}' belongs into the body");
            return Err(Refusal::of(list, ErrorCode::InvalidArgument, detail).hint(FORM));
        }
        let lists: Lists = serde_json::from_slice(body).map_err(|error| bad_body(&error))?;
        fields.merge_pairs(lists.rest, &Self::KEYS)?;
        if [&lists.conditions, &lists.then, &lists.otherwise].iter().all(|list| list.is_none()) {
            let detail = "a transaction without 'if', 'then' and 'else' does nothing";
            return Err(Refusal::new(ErrorCode::InvalidArgument, detail).hint(FORM));
        }
        let change = ChangeParams::parse(&fields, request)?;
        let session = change.session.is_some();
        let operation = |pairs| operation(pairs, session);
        Ok(Self {
            change,
            conditions: each("if", lists.conditions, condition)?,
            then: each("then", lists.then, operation)?,
            otherwise: each("else", lists.otherwise, operation)?,
        })
    }
}

/// The body as it is written.
#[derive(Debug, Default)]
struct Lists {
    conditions: Option<Vec<Pairs>>,
    then: Option<Vec<Pairs>>,
    otherwise: Option<Vec<Pairs>>,
    rest: Pairs,
}

impl<'de> Deserialize<'de> for Lists {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListsVisitor;
        impl<'de> Visitor<'de> for ListsVisitor {
            type Value = Lists;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Lists, A::Error> {
                let mut lists = Lists::default();
                while let Some(key) = map.next_key::<String>()? {
                    let list = match key.as_str() {
                        "if" => &mut lists.conditions,
                        "then" => &mut lists.then,
                        "else" => &mut lists.otherwise,
                        _ => {
                            lists.rest.0.push((key, map.next_value()?));
                            continue;
                        }
                    };
                    if list.replace(map.next_value()?).is_some() {
                        return Err(A::Error::custom(format!("'{key}' is given twice")));
                    }
                }
                Ok(lists)
            }
        }
        deserializer.deserialize_map(ListsVisitor)
    }
}

fn bad_body(error: &serde_json::Error) -> Refusal {
    let detail = format!("the body is not a transaction: {error}");
    Refusal::new(ErrorCode::InvalidArgument, detail).hint(FORM)
}

fn each<T>(
    list: &str,
    items: Option<Vec<Pairs>>,
    read: impl Fn(Pairs) -> Result<T, Refusal>,
) -> Result<Vec<T>, Refusal> {
    let placed = |(at, item)| {
        read(item).map_err(|mut refusal: Refusal| {
            refusal.detail = format!("{list}[{at}]: {}", refusal.detail);
            refusal
        })
    };
    items.unwrap_or_default().into_iter().enumerate().map(placed).collect()
}

fn fields(pairs: Pairs, keys: &ParamList) -> Result<Fields<'static>, Refusal> {
    let mut fields = Fields::default();
    fields.merge_pairs(pairs, keys)?;
    Ok(fields)
}

/// What an object is about: the one of `names` that is among its keys.
fn subject(pairs: &Pairs, names: &[&'static str], what: &str) -> Result<&'static str, Refusal> {
    let has = |name: &&&str| pairs.0.iter().any(|(key, _)| key == **name);
    let mut found = names.iter().filter(has);
    let listed = || format!("{what} has one of {}", names.join(", "));
    match (found.next(), found.next()) {
        (Some(name), None) => Ok(name),
        (Some(one), Some(other)) => {
            let detail = format!("'{one}' and '{other}' in one object");
            Err(Refusal::of(other, ErrorCode::InvalidArgument, detail).hint(listed()))
        }
        (None, _) => {
            let near = pairs.0.iter().find_map(|(key, _)| nearest(key, names.iter().copied()));
            let hint = match near {
                Some(near) => format!("did you mean '{near}'? {}", listed()),
                None => listed(),
            };
            let detail = format!("{what} that says not what it is about");
            Err(Refusal::new(ErrorCode::InvalidArgument, detail).hint(hint))
        }
    }
}

fn condition(pairs: Pairs) -> Result<Condition, Refusal> {
    match subject(&pairs, &["path", "lock", "session"], "a condition")? {
        "lock" => {
            let fields = fields(pairs, &ON_LOCK)?;
            let lock = named(&fields, "lock", |name| LockName::new(name))?;
            Ok(Condition::Holds { lock, token: token(&fields)? })
        }
        "session" => {
            let fields = fields(pairs, &ON_SESSION)?;
            if !fields.flag("open") {
                let detail = "a condition on a session can only be that it is open";
                return Err(Refusal::of("open", ErrorCode::InvalidArgument, detail)
                    .hint(r#"write {"session":"me","open":true}"#));
            }
            let session = named(&fields, "session", |name| SessionName::new(name))?;
            Ok(Condition::SessionOpen { session })
        }
        _ => on_path(pairs),
    }
}

fn on_path(pairs: Pairs) -> Result<Condition, Refusal> {
    let aspects = ["exists", "version", "data", "data_base64"];
    let aspect = subject(&pairs, &aspects, "a condition on a path")?;
    let fields = fields(pairs, &ON_PATH)?;
    let path = path(&fields, "path")?;
    Ok(match aspect {
        "exists" => Condition::Exists { path, exists: fields.flag("exists") },
        "version" => Condition::Version { path, version: version(&fields)?.unwrap_or_default() },
        _ => Condition::Data { path, data: data(&fields)?.unwrap_or_default().to_vec() },
    })
}

/// `session`: the transaction names one, which is said once for all of its operations.
fn operation(pairs: Pairs, session: bool) -> Result<Op, Refusal> {
    let verb = subject(&pairs, &VERBS, "an operation")?;
    let keys = of_verb(verb);
    let fields = fields(pairs, &keys)?;
    if verb == "create" {
        return create(&fields, session);
    }
    let path = path(&fields, verb)?;
    let version = version(&fields)?;
    let missing = |key: &str, hint: &str| {
        let detail = format!("'{verb}' without '{key}'");
        Refusal::of(key, ErrorCode::InvalidArgument, detail).hint(hint)
    };
    Ok(match verb {
        "set" => {
            let hint = r#"write "data":"" to empty the node"#;
            let data = data(&fields)?.ok_or_else(|| missing("data", hint))?;
            Op::SetData { path, data, version }
        }
        "delete" => Op::Delete { path, version, recursive: fields.flag("recursive") },
        "set_acl" => {
            let hint = r#"write "acl":["world:anyone:cdrwa"] to open the node"#;
            let acl = parse_list(fields.values("acl"))?.ok_or_else(|| missing("acl", hint))?;
            Op::SetAcl { path, acl, version }
        }
        _ => Op::Check { path, version },
    })
}

fn create(fields: &Fields<'_>, session: bool) -> Result<Op, Refusal> {
    let sequential = fields.flag("sequential");
    let (directory, name) =
        named(fields, "create", |path| ZnodePath::for_create(path, sequential))?;
    let data = data(fields)?.unwrap_or_default();
    let MakeParams { kind, acl, parents } = MakeParams::parse(fields, session)?;
    let kind = kind.unwrap_or(CreateKind::Persistent);
    Ok(Op::Create(Create { directory, name, data, kind, sequential, acl, parents }))
}

fn named<T>(
    fields: &Fields<'_>,
    key: &str,
    new: impl FnOnce(&str) -> Result<T, NameError>,
) -> Result<T, Refusal> {
    new(fields.value(key).unwrap_or_default()).map_err(|error| Refusal::bad_name(key, &error))
}

fn path(fields: &Fields<'_>, key: &str) -> Result<ZnodePath, Refusal> {
    named(fields, key, |path| ZnodePath::new(path))
}

/// Text as it is, or bytes in base 64; none if neither is given.
fn data(fields: &Fields<'_>) -> Result<Option<Data>, Refusal> {
    match (fields.value("data"), fields.value("data_base64")) {
        (None, None) => Ok(None),
        (Some(text), None) => Ok(Some(text.as_bytes().into())),
        (None, Some(text)) => {
            STANDARD.decode(text).map(|bytes| Some(bytes.into())).map_err(|error| {
                let detail = format!("'data_base64' is not base 64: {error}");
                Refusal::of("data_base64", ErrorCode::InvalidArgument, detail)
                    .hint("use the standard alphabet with padding, or send text as \"data\"")
            })
        }
        (Some(_), Some(_)) => {
            let detail = "'data' and 'data_base64' exclude each other";
            Err(Refusal::of("data_base64", ErrorCode::InvalidArgument, detail)
                .hint("leave one of them out"))
        }
    }
}

fn version(fields: &Fields<'_>) -> Result<Option<i32>, Refusal> {
    let Some(text) = fields.value("version") else { return Ok(None) };
    let version = text.parse().ok().filter(|version| *version >= 0);
    version.map(Some).ok_or_else(|| {
        Refusal::of("version", ErrorCode::InvalidArgument, "'version' is not a version")
            .hint("give the version that the node must have, or leave it out")
    })
}

fn token(fields: &Fields<'_>) -> Result<FencingToken, Refusal> {
    let token = fields.value("holds").and_then(|text| text.parse().ok());
    token.filter(|token| *token < FencingToken::END).map(FencingToken).ok_or_else(|| {
        let detail = "'holds' is not a token below 2^53";
        Refusal::of("holds", ErrorCode::InvalidArgument, detail)
            .hint(r#"write {"lock":"orders","holds":42} with the token of your grant"#)
    })
}

#[cfg(test)]
mod tests;
