//! What the objects of a transaction may say: the keys of each kind of condition and operation, and what they mean.

use holdfast_types::{FencingToken, LockName, SessionName, ZnodePath};

use crate::Keys;
use crate::describe::{Form, Param};
use crate::params::NODE_TTL;

const TEXT: Param = Param::text("data", "Its data as text; may be empty");
const BYTES: Param = Param::of("data_base64", Form::Base64, "Its data in base 64, instead of data");
const VERSION: Param =
    Param::number("version", (0, i32::MAX as u64), "The version that it must have");
const ACL: Param = Param::of("acl", Form::AccessEntry, "Its access list, entries scheme:id:perms");

const fn path(name: &'static str, about: &'static str) -> Param {
    let form = Form::Path { bytes_max: ZnodePath::MAX_LEN, rooted: true };
    Param::of(name, form, about).needed("/a")
}

/// Of a condition on a lock.
pub(super) const ON_LOCK: Keys = Keys {
    what: "a condition on a lock",
    values: &["lock", "holds"],
    about: &[
        Param::name("lock", LockName::MAX_LEN, "The lock").needed("orders"),
        Param::number("holds", (0, FencingToken::END - 1), "The token of its present holder")
            .needed("1"),
    ],
    ..Keys::NONE
};
/// Of a condition on a session.
pub(super) const ON_SESSION: Keys = Keys {
    what: "a condition on a session",
    values: &["session"],
    flags: &["open"],
    about: &[
        Param::name("session", SessionName::MAX_LEN, "The session").needed("me"),
        Param::flag("open", "It is open; nothing else can be said of it").needed("true"),
    ],
    ..Keys::NONE
};
/// Of a condition on a path.
pub(super) const ON_PATH: Keys = Keys {
    what: "a condition on a path",
    values: &["path", "version", "data_base64"],
    texts: &["data"],
    flags: &["exists"],
    about: &[
        path("path", "The node; with one of exists, version, data and data_base64"),
        VERSION,
        BYTES,
        TEXT,
        Param::flag("exists", "It exists; false: it does not"),
    ],
    ..Keys::NONE
};
const CREATE: Keys = Keys {
    what: "a create",
    values: &["create", "data_base64", "ttl"],
    texts: &["data"],
    many: &["acl"],
    flags: &["sequential", "ephemeral", "container", "parents"],
    about: &[
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
    ..Keys::NONE
};
const SET: Keys = Keys {
    what: "a set",
    values: &["set", "data_base64", "version"],
    texts: &["data"],
    about: &[path("set", "The node whose data is replaced"), BYTES, VERSION, TEXT],
    ..Keys::NONE
};
const DELETE: Keys = Keys {
    what: "a delete",
    values: &["delete", "version"],
    flags: &["recursive"],
    about: &[
        path("delete", "The node to delete"),
        VERSION,
        Param::flag("recursive", "With everything below it"),
    ],
    ..Keys::NONE
};
const SET_ACL: Keys = Keys {
    what: "a set_acl",
    values: &["set_acl", "version"],
    many: &["acl"],
    about: &[path("set_acl", "The node whose list is replaced"), VERSION, ACL],
    ..Keys::NONE
};
const CHECK: Keys = Keys {
    what: "a check",
    values: &["check", "version"],
    about: &[path("check", "The node that must exist, with that version"), VERSION],
    ..Keys::NONE
};

/// Operations, by the key that names the path.
pub(super) const VERBS: [&str; 5] = ["create", "set", "delete", "set_acl", "check"];

/// Of an operation.
pub(super) const fn of_verb(verb: &str) -> Keys {
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

    use super::{Keys, ON_LOCK, ON_PATH, ON_SESSION, VERBS, of_verb};

    /// What a condition looks like.
    pub(crate) fn condition_schema() -> Value {
        one_of("A condition: all of a transaction's must hold.", &[ON_PATH, ON_LOCK, ON_SESSION])
    }

    /// What an operation looks like.
    pub(crate) fn operation_schema() -> Value {
        let kinds: Vec<Keys> = VERBS.iter().map(|verb| of_verb(verb)).collect();
        one_of("An operation: the key that names the path says which.", &kinds)
    }

    fn one_of(about: &str, kinds: &[Keys]) -> Value {
        let kinds: Vec<Value> = kinds.iter().map(of_keys).collect();
        json!({ "description": about, "oneOf": kinds })
    }

    fn of_keys(keys: &Keys) -> Value {
        let mut schema = keys.schema();
        let needed: Vec<&str> =
            keys.about.iter().filter(|param| param.is_needed()).map(|param| param.name).collect();
        if let Some(object) = schema.as_object_mut() {
            object.insert("title".to_owned(), keys.what.into());
            object.insert("required".to_owned(), needed.into());
        }
        schema
    }
}

#[cfg(feature = "schema")]
pub(crate) use schema::{condition_schema, operation_schema};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_an_object_is_described() {
        for keys in [ON_LOCK, ON_SESSION, ON_PATH].into_iter().chain(VERBS.map(of_verb)) {
            assert_eq!(keys.undescribed(), Vec::<&str>::new(), "{}", keys.what);
        }
    }
}
