//! What the objects of a transaction may say: the keys of each kind of condition and operation, and what they mean.

use holdfast_types::{FencingToken, LockName, SessionName, ZnodePath};

use crate::ParamList;
use crate::param::{Form, Param};
use crate::params::NODE_TTL;

const TEXT: Param = Param::text_or_empty("data", "Its data as text; may be empty");
const BYTES: Param = Param::of("data_base64", Form::Base64, "Its data in base 64, instead of data");
const VERSION: Param =
    Param::number("version", (0, i32::MAX as u64), "The version that it must have");
const ACL: Param = Param::of("acl", Form::AccessEntry, "Its access list, entries scheme:id:perms");

const fn path(name: &'static str, about: &'static str) -> Param {
    let form = Form::Path { bytes_max: ZnodePath::MAX_LEN, rooted: true };
    Param::of(name, form, about).needed("/a")
}

/// Of a condition on a lock.
pub(super) const ON_LOCK: ParamList = ParamList {
    what: "a condition on a lock",
    params: &[
        Param::name("lock", LockName::MAX_LEN, "The lock").needed("orders"),
        Param::number("holds", (0, FencingToken::END - 1), "The token of its present holder")
            .needed("1"),
    ],
};
/// Of a condition on a session.
pub(super) const ON_SESSION: ParamList = ParamList {
    what: "a condition on a session",
    params: &[
        Param::name("session", SessionName::MAX_LEN, "The session").needed("me"),
        Param::flag("open", "It is open; nothing else can be said of it").needed("true"),
    ],
};
/// Of a condition on a path.
pub(super) const ON_PATH: ParamList = ParamList {
    what: "a condition on a path",
    params: &[
        path("path", "The node; with one of exists, version, data and data_base64"),
        VERSION,
        BYTES,
        TEXT,
        Param::flag("exists", "It exists; false: it does not"),
    ],
};
const CREATE: ParamList = ParamList {
    what: "a create",
    params: &[
        path("create", "The node to create"),
        BYTES,
        Param::duration("ttl", NODE_TTL, "Swept when it was not changed for so long"),
        TEXT,
        ACL,
        Param::flag("sequential", "Its name gets the directory's next number"),
        Param::flag("ephemeral", "Goes with the transaction's session"),
        Param::flag("container", "Swept when its last child has gone"),
        Param::flag("parents", "Create missing directories as well"),
    ],
};
const SET: ParamList = ParamList {
    what: "a set",
    params: &[path("set", "The node whose data is replaced"), BYTES, VERSION, TEXT],
};
const DELETE: ParamList = ParamList {
    what: "a delete",
    params: &[
        path("delete", "The node to delete"),
        VERSION,
        Param::flag("recursive", "With everything below it"),
    ],
};
const SET_ACL: ParamList = ParamList {
    what: "a set_acl",
    params: &[path("set_acl", "The node whose list is replaced"), VERSION, ACL],
};
const CHECK: ParamList = ParamList {
    what: "a check",
    params: &[path("check", "The node that must exist, with that version"), VERSION],
};

/// Operations, by the key that names the path.
pub(super) const VERBS: [&str; 5] = ["create", "set", "delete", "set_acl", "check"];

/// Of an operation.
pub(super) const fn of_verb(verb: &str) -> ParamList {
    match verb.as_bytes() {
        b"create" => CREATE,
        b"set" => SET,
        b"delete" => DELETE,
        b"set_acl" => SET_ACL,
        _ => CHECK,
    }
}

#[cfg(feature = "schema")]
mod schema {
    use serde_json::{Value, json};

    use crate::object_schema;

    use super::{ON_LOCK, ON_PATH, ON_SESSION, ParamList, VERBS, of_verb};

    /// What a condition looks like.
    pub(crate) fn condition_schema() -> Value {
        one_of("A condition: all of a transaction's must hold.", &[ON_PATH, ON_LOCK, ON_SESSION])
    }

    /// What an operation looks like.
    pub(crate) fn operation_schema() -> Value {
        let kinds: Vec<ParamList> = VERBS.iter().map(|verb| of_verb(verb)).collect();
        one_of("An operation: the key that names the path says which.", &kinds)
    }

    fn one_of(about: &str, kinds: &[ParamList]) -> Value {
        let kinds: Vec<Value> = kinds.iter().map(of_keys).collect();
        json!({ "description": about, "oneOf": kinds })
    }

    fn of_keys(keys: &ParamList) -> Value {
        let mut schema = object_schema(keys.params);
        let needed: Vec<&str> =
            keys.params.iter().filter(|param| param.is_needed()).map(|param| param.name).collect();
        if let Some(object) = schema.as_object_mut() {
            object.insert("title".to_owned(), keys.what.into());
            object.insert("required".to_owned(), needed.into());
        }
        schema
    }
}

#[cfg(feature = "schema")]
pub(crate) use schema::{condition_schema, operation_schema};
