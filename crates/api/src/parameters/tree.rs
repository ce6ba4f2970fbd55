//! Parameters of znodes.

use std::time::Duration;

use holdfast_types::SessionName;

use crate::DURATION_MAX;
use crate::param::{Form, Param};

pub const SESSION: Param = Param::name(
    "session",
    SessionName::MAX_LEN,
    "The open session that remembers the response of a call with a request number, and owns ephemeral znodes. The call \
     does not renew it",
);
pub const EPHEMERAL: Param = Param::flag(
    "ephemeral",
    "Create a znode that is deleted when its session ends and that cannot have children. Requires session",
);
pub const CONTAINER: Param =
    Param::flag("container", "Create a znode that is deleted after the deletion of its last child");
pub const TTL: Param = Param::duration(
    "ttl",
    (Duration::from_millis(1), DURATION_MAX),
    "Create a znode that is deleted after this time without children and without changes",
)
.hint("leave ttl out for a persistent znode");
pub const ACL: Param = Param::of(
    "acl",
    Form::AccessEntry,
    "One entry of the znode's access list, scheme:id:perms. Without a list every caller has every permission",
);
pub const PARENTS: Param = Param::flag("parents", "Create missing directories as well");
pub const SEQUENTIAL: Param = Param::flag(
    "sequential",
    "The name of the new znode ends with the next number of the directory",
)
.needed("true")
.hint("add ?sequential; to choose the whole name, use PUT");
pub const NAME: Param =
    Param::text_or_empty("name", "The beginning of the new znode's name; contains no '/'");
pub const DELETE_RECURSIVE: Param =
    Param::flag("recursive", "Delete everything below the znode as well, all or nothing");
pub const STAT: Param = Param::flag("stat", "The znode's stat as JSON, instead of its data");
pub const CHILDREN: Param =
    Param::flag("children", "A page of the znode's children with their stats, ordered by name");
pub const RECURSIVE: Param = Param::flag(
    "recursive",
    "A page of the znode and of everything below it that the caller may read",
);
