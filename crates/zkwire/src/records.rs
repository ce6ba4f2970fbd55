//! Records that several operations share: a node's stat, an entry of an access list, an identity.
//!
//! Owns their layouts. Refuses to know which schemes and permissions there are.

use crate::DecodeError;
use crate::jute::{Reader, Record, Sink};

/// Bytes of a [`Stat`].
pub const STAT_LEN: usize = 68;

/// What a node says about itself.
///
/// # Format
/// In the order of the fields, 68 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stat {
    /// Of the node's creation.
    pub czxid: i64,
    /// Of the last change of its data.
    pub mzxid: i64,
    /// When it was created, milliseconds since 1970.
    pub ctime: i64,
    /// When its data last changed, milliseconds since 1970.
    pub mtime: i64,
    /// Changes of its data.
    pub version: i32,
    /// Changes of its children.
    pub cversion: i32,
    /// Changes of its access list.
    pub aversion: i32,
    /// The owning session; 0 if there is none. `ZooKeeper` 3.8.0 says 0 of containers and nodes with a time-to-live, too.
    pub ephemeral_owner: i64,
    /// Bytes of data.
    pub data_length: i32,
    /// Children it has.
    pub num_children: i32,
    /// Of the last change of its children.
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

/// One entry of an access list: who may do what.
///
/// # Format
/// `int perms, string scheme, string id`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acl {
    /// Bits of [`crate::perms`].
    pub perms: i32,
    /// How the identity is proven: `world`, `digest`, `ip` ...
    pub scheme: String,
    /// The identity in the scheme's own form.
    pub id: String,
}

impl Acl {
    /// Anybody may do anything: `world:anyone`, all permissions.
    pub fn open() -> Self {
        Self { perms: crate::perms::ALL, scheme: "world".to_owned(), id: "anyone".to_owned() }
    }

    pub(crate) fn read_all(reader: &mut Reader) -> Result<Vec<Self>, DecodeError> {
        reader.vector_or_empty("acl", 12, |reader| {
            let (perms, scheme) = (reader.int("perms")?, reader.string_or_empty("scheme")?);
            // Of `auth` nobody reads the id, and kazoo sends null for it.
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

/// Whom the server takes a client for, by one scheme.
///
/// # Format
/// `string scheme, string id`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AuthId {
    /// How it was proven.
    pub scheme: String,
    /// The identity, as far as it may be shown.
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
