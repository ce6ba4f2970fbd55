//! The conditions and operations of a transaction.
//!
//! Each object is parsed like the parameters of a call. An unknown key is rejected with the nearest known key, and a
//! repeated key is rejected. One key names the subject: `path`, `lock` or `session` in a condition, the verb in an
//! operation.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_api::parameters::tree::TTL;
use holdfast_api::{
    CallParams, ErrorCode, Form, JsonPairs, Param, ParamError, ParamList, ParamValue, RawParams,
    nearest, object_schema, params,
};
use holdfast_types::{
    AclEntry, Condition, Data, FencingToken, LockName, Op, SessionName, ZnodePath,
};
use serde_json::{Value, json};

use crate::tree::{KindParams, NewZnode};

const DATA: Param = Param::text_or_empty("data", "The data as text; may be empty");
const DATA_BASE64: Param =
    Param::of("data_base64", Form::Base64, "The data in base 64, as an alternative to data");
const VERSION: Param =
    Param::number("version", (0, i32::MAX as u64), "The required version of the znode")
        .hint("write the required version of the znode, or leave it out");
const ACL: Param = Param::of("acl", Form::AccessEntry, "The access list, entries scheme:id:perms");
const OPEN: Param = Param::flag("open", "The session must be open; true is the only valid value")
    .needed("true")
    .hint(r#"write {"session":"me","open":true}"#);
const HOLDS: Param =
    Param::number("holds", (0, FencingToken::END - 1), "The token of a current holder of the lock")
        .needed("1")
        .hint(r#"write {"lock":"orders","holds":42} with the token of your grant"#);

const fn path(name: &'static str, about: &'static str) -> Param {
    let form = Form::Path { bytes_max: ZnodePath::MAX_LEN, rooted: true };
    Param::of(name, form, about).needed("/a")
}

params! {
    struct LockCondition as "a condition on a lock" {
        lock: LockName = Param::name("lock", LockName::MAX_LEN, "The lock").needed("orders"),
        holds: FencingToken = HOLDS,
    }

    struct SessionCondition as "a condition on a session" {
        session: SessionName =
            Param::name("session", SessionName::MAX_LEN, "The session").needed("me"),
        _open: bool = OPEN,
    }

    struct PathCondition as "a condition on a path" {
        path: ZnodePath =
            path("path", "The znode; requires one of exists, version, data and data_base64"),
        version: Option<i32> = VERSION,
        data_base64: Option<Base64> = DATA_BASE64,
        data: Option<String> = DATA,
        exists: bool = Param::flag("exists", "true: the znode must exist; false: it must not exist"),
    }

    struct CreateOp as "a create" {
        create: String = path("create", "The znode to create"),
        data_base64: Option<Base64> = DATA_BASE64,
        ttl: Option<Duration> = TTL,
        data: Option<String> = DATA,
        acl: Vec<AclEntry> = ACL,
        sequential: bool =
            Param::flag("sequential", "The name ends with the next number of the directory"),
        ephemeral: bool =
            Param::flag("ephemeral", "The znode is deleted when the transaction's session ends"),
        container: bool =
            Param::flag("container", "The znode is deleted after its last child was deleted"),
        parents: bool = Param::flag("parents", "Create missing directories as well"),
    }

    struct SetOp as "a set" {
        set: ZnodePath = path("set", "The znode whose data is replaced"),
        data_base64: Option<Base64> = DATA_BASE64,
        version: Option<i32> = VERSION,
        data: Option<String> = DATA,
    }

    struct DeleteOp as "a delete" {
        delete: ZnodePath = path("delete", "The znode to delete"),
        version: Option<i32> = VERSION,
        recursive: bool = Param::flag("recursive", "Delete everything below the znode as well"),
    }

    struct SetAclOp as "a set_acl" {
        set_acl: ZnodePath = path("set_acl", "The znode whose access list is replaced"),
        version: Option<i32> = VERSION,
        acl: Vec<AclEntry> = ACL,
    }

    struct CheckOp as "a check" {
        check: ZnodePath = path("check", "The znode that must exist, with the given version"),
        version: Option<i32> = VERSION,
    }
}

/// The kinds of conditions, by the key that names the subject.
const CONDITIONS: [(&str, ParamList); 3] = [
    ("path", PathCondition::LIST),
    ("lock", LockCondition::LIST),
    ("session", SessionCondition::LIST),
];

/// The kinds of operations, by the key that names the path.
const OPERATIONS: [(&str, ParamList); 5] = [
    ("create", CreateOp::LIST),
    ("set", SetOp::LIST),
    ("delete", DeleteOp::LIST),
    ("set_acl", SetAclOp::LIST),
    ("check", CheckOp::LIST),
];

pub(super) fn condition(pairs: JsonPairs) -> Result<Condition, ParamError> {
    match subject(&pairs, &CONDITIONS.map(|(key, _)| key), "a condition")? {
        "lock" => {
            let LockCondition { lock, holds } = read(pairs)?;
            Ok(Condition::Holds { lock, token: holds })
        }
        "session" => {
            let SessionCondition { session, .. } = read(pairs)?;
            Ok(Condition::SessionOpen { session })
        }
        _ => on_path(pairs),
    }
}

fn on_path(pairs: JsonPairs) -> Result<Condition, ParamError> {
    let aspects = ["exists", "version", "data", "data_base64"];
    let aspect = subject(&pairs, &aspects, "a condition on a path")?;
    let PathCondition { path, version, data_base64, data, exists } = read(pairs)?;
    Ok(match aspect {
        "exists" => Condition::Exists { path, exists },
        "version" => Condition::Version { path, version: version.unwrap_or_default() },
        _ => {
            let data = node_data(data, data_base64)?.unwrap_or_default();
            Condition::Data { path, data: data.to_vec() }
        }
    })
}

pub(super) fn operation(pairs: JsonPairs, has_session: bool) -> Result<Op, ParamError> {
    let missing = |verb: &str, key: &str, hint: &str| {
        let detail = format!("'{verb}' requires '{key}'");
        ParamError::invalid(key, detail).hint(hint)
    };
    match subject(&pairs, &OPERATIONS.map(|(key, _)| key), "an operation")? {
        "create" => create(read(pairs)?, has_session),
        "set" => {
            let SetOp { set, data_base64, version, data } = read(pairs)?;
            let hint = r#"write "data":"" to empty the znode"#;
            let data = node_data(data, data_base64)?;
            let data = data.ok_or_else(|| missing("set", "data", hint))?;
            Ok(Op::SetData { path: set, data, version })
        }
        "delete" => {
            let DeleteOp { delete, version, recursive } = read(pairs)?;
            Ok(Op::Delete { path: delete, version, recursive })
        }
        "set_acl" => {
            let SetAclOp { set_acl, version, acl } = read(pairs)?;
            if acl.is_empty() {
                let hint = r#"write "acl":["world:anyone:cdrwa"] to allow every client"#;
                return Err(missing("set_acl", "acl", hint));
            }
            Ok(Op::SetAcl { path: set_acl, acl, version })
        }
        _ => {
            let CheckOp { check, version } = read(pairs)?;
            Ok(Op::Check { path: check, version })
        }
    }
}

fn create(op: CreateOp, has_session: bool) -> Result<Op, ParamError> {
    let CreateOp { create, sequential, ephemeral, container, ttl, parents, .. } = op;
    let (directory, name) = ZnodePath::for_create(&create, sequential)
        .map_err(|error| ParamError::bad_name("create", &error))?;
    let data = node_data(op.data, op.data_base64)?.unwrap_or_default();
    let kind = KindParams { ephemeral, container, ttl }.kind(has_session)?;
    let acl = Some(op.acl).filter(|acl| !acl.is_empty());
    Ok(Op::Create(NewZnode { kind, acl, parents }.named(directory, name, data, sequential)))
}

fn read<T: CallParams>(pairs: JsonPairs) -> Result<T, ParamError> {
    T::read(&RawParams::from_pairs(pairs, &T::LIST)?)
}

/// Returns the key of `keys` that the object has.
fn subject(
    pairs: &JsonPairs,
    keys: &[&'static str],
    what: &str,
) -> Result<&'static str, ParamError> {
    let mut found = keys.iter().filter(|key| pairs.keys().any(|written| written == **key));
    let listed = || format!("{what} has one of {}", keys.join(", "));
    match (found.next(), found.next()) {
        (Some(key), None) => Ok(key),
        (Some(one), Some(other)) => {
            let detail = format!("'{one}' and '{other}' exclude each other in one object");
            Err(ParamError::invalid(other, detail).hint(listed()))
        }
        (None, _) => {
            let near = pairs.keys().find_map(|key| nearest(key, keys.iter().copied()));
            let hint = match near {
                Some(near) => format!("did you mean '{near}'? {}", listed()),
                None => listed(),
            };
            let detail = format!("{what} has none of its required keys");
            Err(ParamError::new(ErrorCode::InvalidArgument, detail).hint(hint))
        }
    }
}

/// Bytes in base 64.
#[derive(Clone, Debug)]
struct Base64(Vec<u8>);

impl ParamValue for Base64 {
    fn parse(param: &Param, text: &str) -> Result<Self, ParamError> {
        STANDARD.decode(text).map(Self).map_err(|error| {
            let detail = format!("'{}' is not base 64: {error}", param.name);
            ParamError::invalid(param.name, detail)
                .hint("use the standard alphabet with padding, or send text as \"data\"")
        })
    }

    fn to_text(&self) -> String {
        STANDARD.encode(&self.0)
    }
}

fn node_data(text: Option<String>, bytes: Option<Base64>) -> Result<Option<Data>, ParamError> {
    match (text, bytes) {
        (Some(_), Some(_)) => {
            Err(ParamError::excluded("data_base64", "data").hint("leave one of them out"))
        }
        (Some(text), None) => Ok(Some(text.into_bytes().into())),
        (None, bytes) => Ok(bytes.map(|Base64(bytes)| bytes.into())),
    }
}

pub(crate) fn condition_schema() -> Value {
    one_of("A condition: all conditions of a transaction must hold.", &CONDITIONS)
}

pub(crate) fn operation_schema() -> Value {
    one_of("An operation: the key with the path selects its kind.", &OPERATIONS)
}

fn one_of(about: &str, kinds: &[(&str, ParamList)]) -> Value {
    let schema = |(_, list): &(&str, ParamList)| {
        let mut schema = object_schema(list);
        let required: Vec<&str> =
            list.params.iter().filter(|param| param.is_needed()).map(|param| param.name).collect();
        schema["title"] = list.what.into();
        schema["required"] = required.into();
        schema
    };
    let kinds: Vec<Value> = kinds.iter().map(schema).collect();
    json!({ "description": about, "oneOf": kinds })
}
