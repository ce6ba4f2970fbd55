//! JSON schemas of names and numbers, for the OpenAPI description.
//!
//! Compiled only with the feature `schema`, so that other programs do not depend on `schemars`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::{
    AccessTokenId, Address, Attempt, AuditHash, AuditItem, CertificateName, FencingToken, Labels,
    LockName, NamespaceName, NodeId, Owner, Reason, RecipeName, RequestId, RequestNumber, Revision,
    RoleName, SessionId, SessionName, Stamp, SubjectName, Ticket, ZnodePath, Zone,
};

macro_rules! inline {
    ($($name:ident: $schema:expr;)*) => {
        $(impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        })*
    };
}

inline! {
    LockName: name(LockName::MAX_LEN);
    Zone: name(Zone::MAX_LEN);
    Address: name(Address::MAX_LEN);
    SessionName: name(SessionName::MAX_LEN);
    Owner: name(Owner::MAX_LEN);
    RecipeName: name(RecipeName::MAX_LEN);
    RequestId: name(RequestId::MAX_LEN);
    SubjectName: name(SubjectName::MAX_LEN);
    RoleName: name(RoleName::MAX_LEN);
    NamespaceName: name(NamespaceName::MAX_LEN);
    CertificateName: name(CertificateName::MAX_LEN);
    AccessTokenId: json_schema!({ "type": "string", "pattern": "^[0-9a-f][0-9a-hjkmnp-tv-z]{12}$" });
    Reason: name(Reason::MAX_LEN);
    AuditHash: json_schema!({ "type": "string", "pattern": "^[0-9a-f]{64}$" });
    AuditItem: json_schema!({
        "description": "The kind of a value, with the value: an object with one field, or a text for a kind without a value",
        "type": ["object", "string"],
        "maxProperties": 1,
    });
    ZnodePath: json_schema!({ "type": "string", "pattern": "^/", "maxLength": ZnodePath::MAX_LEN });
    Attempt: json_schema!({ "type": "integer", "format": "int64", "minimum": 1, "maximum": Attempt::MAX.0 });
    RequestNumber: json_schema!({ "type": "integer", "format": "int64", "minimum": 1, "maximum": RequestNumber::MAX.0 });
    FencingToken: below(FencingToken::END);
    SessionId: below(FencingToken::END);
    Revision: below(FencingToken::END);
    Ticket: below(FencingToken::END);
    Stamp: json_schema!({ "type": "integer", "minimum": 0 });
    NodeId: json_schema!({ "type": "integer", "minimum": 1 });
    Labels: json_schema!({
        "type": "object",
        "maxProperties": Labels::MAX_COUNT,
        "additionalProperties": { "type": "string", "maxLength": Labels::MAX_VALUE_LEN },
    });
}

/// A name with at most `bytes_max` bytes. `maxLength` counts characters, of which there are never more than bytes.
fn name(bytes_max: usize) -> Schema {
    json_schema!({ "type": "string", "minLength": 1, "maxLength": bytes_max })
}

/// A number from 0 to below `end`, which JavaScript and Lua represent exactly.
fn below(end: u64) -> Schema {
    json_schema!({ "type": "integer", "minimum": 0, "exclusiveMaximum": end })
}
