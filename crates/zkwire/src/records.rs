//! Records that several operations share: the stat of a node, an entry of an access list, an identity.

use crate::DecodeError;
use crate::jute::{Reader, Record, Sink};

/// Bytes of a [`Stat`].
pub const STAT_LEN: usize = 68;

/// The metadata of a node.
///
/// # Format
/// In the order of the fields, 68 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stat {
    /// The zxid of the creation.
    pub czxid: i64,
    /// The zxid of the last change of the data.
    pub mzxid: i64,
    /// The time of the creation, milliseconds since 1970.
    pub ctime: i64,
    /// The time of the last change of the data, milliseconds since 1970.
    pub mtime: i64,
    /// The number of changes of the data.
    pub version: i32,
    /// The number of changes of the children.
    pub cversion: i32,
    /// The number of changes of the access list.
    pub aversion: i32,
    /// The owning session of an ephemeral node. 0 for other nodes; in ZooKeeper 3.8.0 also for containers and nodes with a
    /// time-to-live.
    pub ephemeral_owner: i64,
    pub data_length: i32,
    pub num_children: i32,
    /// The zxid of the last change of the children.
    pub pzxid: i64,
}

impl Stat {
    pub(crate) fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            czxid: reader.long("czxid")?,
            mzxid: reader.long("mzxid")?,
            ctime: reader.long("ctime")?,
            mtime: reader.long("mtime")?,
            version: reader.int("version")?,
            cversion: reader.int("cversion")?,
            aversion: reader.int("aversion")?,
            ephemeral_owner: reader.long("ephemeralOwner")?,
            data_length: reader.int("dataLength")?,
            num_children: reader.int("numChildren")?,
            pzxid: reader.long("pzxid")?,
        })
    }
}

impl Record for Stat {
    fn write<S: Sink>(&self, out: &mut S) {
        out.long(self.czxid);
        out.long(self.mzxid);
        out.long(self.ctime);
        out.long(self.mtime);
        out.int(self.version);
        out.int(self.cversion);
        out.int(self.aversion);
        out.long(self.ephemeral_owner);
        out.int(self.data_length);
        out.int(self.num_children);
        out.long(self.pzxid);
    }
}

/// Permission bits of access lists. As in ZooKeeper, undefined bits are accepted.
pub mod perms {
    /// Read data and children.
    pub const READ: i32 = 1;
    pub const WRITE: i32 = 2;
    pub const CREATE: i32 = 4;
    pub const DELETE: i32 = 8;
    pub const ADMIN: i32 = 16;
    pub const ALL: i32 = 31;
}

/// One entry of an access list.
///
/// # Format
/// `int perms, string scheme, string id`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acl {
    /// Bits of [`crate::perms`].
    pub perms: i32,
    /// `world`, `digest`, `ip` ...
    pub scheme: String,
    /// The identity in the form of its scheme.
    pub id: String,
}

impl Acl {
    /// `world:anyone` with all permissions.
    pub fn open() -> Self {
        Self { perms: perms::ALL, scheme: "world".to_owned(), id: "anyone".to_owned() }
    }

    pub(crate) fn read_all(reader: &mut Reader) -> Result<Vec<Self>, DecodeError> {
        reader.vector_or_empty("acl", 12, |reader| {
            let (perms, scheme) = (reader.int("perms")?, reader.string_or_empty("scheme")?);
            // The id of `auth` is unused, and kazoo sends null for it.
            let id = match scheme.as_str() {
                "auth" => reader.string_or_empty("id")?,
                _ => reader.string("id")?,
            };
            Ok(Self { perms, scheme, id })
        })
    }
}

impl Record for Acl {
    fn write<S: Sink>(&self, out: &mut S) {
        out.int(self.perms);
        out.string(&self.scheme);
        out.string(&self.id);
    }
}

/// An identity of a connection.
///
/// # Format
/// `string scheme, string id`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AuthId {
    pub scheme: String,
    /// Without secrets.
    pub id: String,
}

impl AuthId {
    pub(crate) fn read_all(reader: &mut Reader) -> Result<Vec<Self>, DecodeError> {
        reader.vector("clientInfo", 8, |reader| {
            Ok(Self { scheme: reader.string("authScheme")?, id: reader.string("user")? })
        })
    }
}

impl Record for AuthId {
    fn write<S: Sink>(&self, out: &mut S) {
        out.string(&self.scheme);
        out.string(&self.id);
    }
}
