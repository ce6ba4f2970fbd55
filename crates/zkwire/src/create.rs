//! The four operations that create a node, and the flags for the kind of node.
//!
//! As in ZooKeeper, the operation and the flags are independent. The operation determines the layout of the body and
//! whether the reply has a stat. The flags determine the kind of node; outside of a multi the operation alone determines a
//! container. Unknown flags are kept, so that the front-end can reject them.

use bytes::Bytes;

use crate::jute::{Reader, Record, Sink};
use crate::{Acl, DecodeError, op};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CreateMode {
    /// Flags 0.
    Persistent,
    /// Flags 1: deleted with its session.
    Ephemeral,
    /// Flags 2: a number is appended to the name.
    PersistentSequential,
    /// Flags 3.
    EphemeralSequential,
    /// Flags 4: deleted after its last child.
    Container,
    /// Flags 5: deleted when unchanged and without children for this many milliseconds. −1 if the body has no such field.
    Ttl(i64),
    /// Flags 6.
    TtlSequential(i64),
    /// Unknown flags: [`crate::ErrorCode::BadArguments`].
    Unknown(i32),
}

/// The value for a body without the field.
const NO_TTL: i64 = -1;

impl CreateMode {
    /// `ttl_ms` is ignored for flags without a time-to-live.
    pub fn from_flags(flags: i32, ttl_ms: i64) -> Self {
        match flags {
            0 => Self::Persistent,
            1 => Self::Ephemeral,
            2 => Self::PersistentSequential,
            3 => Self::EphemeralSequential,
            4 => Self::Container,
            5 => Self::Ttl(ttl_ms),
            6 => Self::TtlSequential(ttl_ms),
            flags => Self::Unknown(flags),
        }
    }

    pub fn flags(self) -> i32 {
        match self {
            Self::Persistent => 0,
            Self::Ephemeral => 1,
            Self::PersistentSequential => 2,
            Self::EphemeralSequential => 3,
            Self::Container => 4,
            Self::Ttl(_) => 5,
            Self::TtlSequential(_) => 6,
            Self::Unknown(flags) => flags,
        }
    }

    /// Milliseconds; `None` for a mode without a time-to-live.
    pub fn ttl_ms(self) -> Option<i64> {
        match self {
            Self::Ttl(ttl_ms) | Self::TtlSequential(ttl_ms) => Some(ttl_ms),
            Self::Persistent
            | Self::Ephemeral
            | Self::PersistentSequential
            | Self::EphemeralSequential
            | Self::Container
            | Self::Unknown(_) => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CreateOp {
    /// Operation 1, the reply is the path.
    Create,
    /// Operation 15, the reply is path and stat.
    Create2,
    /// Operation 19, the reply is path and stat.
    Container,
    /// Operation 21, the only one that carries a time-to-live, the reply is path and stat.
    Ttl,
}

impl CreateOp {
    /// `None` if the operation with this number does not create nodes.
    pub fn from_op(op: i32) -> Option<Self> {
        match op {
            op::CREATE => Some(Self::Create),
            op::CREATE2 => Some(Self::Create2),
            op::CREATE_CONTAINER => Some(Self::Container),
            op::CREATE_TTL => Some(Self::Ttl),
            _ => None,
        }
    }

    pub fn op(self) -> i32 {
        match self {
            Self::Create => op::CREATE,
            Self::Create2 => op::CREATE2,
            Self::Container => op::CREATE_CONTAINER,
            Self::Ttl => op::CREATE_TTL,
        }
    }
}

/// A node to create.
///
/// # Format
/// `string path, buffer data, vector<acl>, int flags`, and `long ttl` if [`CreateOp::Ttl`]. That operation with
/// flags that have no time-to-live is
/// [`crate::ErrorCode::BadArguments`] to ZooKeeper; its `ttl` is ignored here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Create {
    pub op: CreateOp,
    pub path: String,
    pub data: Option<Bytes>,
    pub acl: Vec<Acl>,
    pub mode: CreateMode,
}

impl Create {
    pub(crate) fn read(reader: &mut Reader, op: CreateOp) -> Result<Self, DecodeError> {
        let path = reader.string("path")?;
        let data = reader.buffer("data")?;
        let acl = Acl::read_all(reader)?;
        let flags = reader.int("flags")?;
        let ttl_ms = if op == CreateOp::Ttl { reader.long("ttl")? } else { NO_TTL };
        Ok(Self { op, path, data, acl, mode: CreateMode::from_flags(flags, ttl_ms) })
    }
}

impl Record for Create {
    fn write<S: Sink>(&self, out: &mut S) {
        out.string(&self.path);
        out.buffer(self.data.as_deref());
        out.vector(&self.acl, |out, acl| acl.write(out));
        out.int(self.mode.flags());
        if self.op == CreateOp::Ttl {
            // Not −1: a server of version 3.8 ends its process over −1 with flags of another mode.
            out.long(self.mode.ttl_ms().unwrap_or(0));
        }
    }
}
