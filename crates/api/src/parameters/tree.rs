//! Parameters of the tree's nodes.

use std::time::Duration;

use holdfast_types::{RequestId, SessionName};

use crate::DURATION_MAX;
use crate::param::{Form, Param};

pub const SESSION: Param = Param::name(
    "session",
    SessionName::MAX_LEN,
    "The session that remembers the answer of a request id and owns ephemeral nodes; the call renews it",
);
pub const REQUEST: Param = Param::name(
    "request",
    RequestId::MAX_LEN,
    "The request id: the same call under the same id gets the first answer. Needs session. The header Idempotency-Key \
     means the same",
);
pub const EPHEMERAL: Param = Param::flag(
    "ephemeral",
    "Create a node that is deleted when its session ends, and that has no children. Needs session",
);
pub const CONTAINER: Param =
    Param::flag("container", "Create a node that is deleted after its last child was deleted");
pub const TTL: Param = Param::duration(
    "ttl",
    (Duration::from_millis(1), DURATION_MAX),
    "Create a node that is deleted when it has no children and was not changed for so long",
)
.hint("leave ttl out for a node that stays");
pub const ACL: Param = Param::of(
    "acl",
    Form::AccessEntry,
    "One entry of the node's access list, scheme:id:perms; without a list every caller has every permission",
);
pub const PARENTS: Param = Param::flag("parents", "Create missing directories as well");
pub const SEQUENTIAL: Param =
    Param::flag("sequential", "The name of the new node ends with the directory's next number")
        .needed("true")
        .hint("add ?sequential; to create a node under a name of your own, PUT it");
pub const NAME: Param =
    Param::text_or_empty("name", "The beginning of the new node's name; contains no '/'");
pub const DELETE_RECURSIVE: Param =
    Param::flag("recursive", "Delete everything below the node as well, all or nothing");
pub const STAT: Param = Param::flag("stat", "The node's stat as JSON, instead of its data");
pub const CHILDREN: Param = Param::flag(
    "children",
    "The node's children with their stats, in order of their names, page by page",
);
pub const RECURSIVE: Param = Param::flag(
    "recursive",
    "The node and everything below it that the caller may read, page by page",
);
