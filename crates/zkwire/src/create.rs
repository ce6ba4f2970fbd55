//! The four operations that create a node, and the kinds of nodes.
//!
//! Owns the flags, with unknown ones kept so that the door can refuse them, and the two layouts of the body. The
//! operation and the flags are independent, as in `ZooKeeper`: the operation says how the body looks and whether
//! the answer has a stat, the flags say what is made: all of it in a multi, all but that it is a container outside.

use bytes::Bytes;

use crate::jute::{Reader, Record, Sink};
use crate::{Acl, DecodeError, op};

/// What kind of node is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CreateMode {
    /// Flags 0.
    Persistent,
    /// Flags 1: ends with its session.
    Ephemeral,
    /// Flags 2: a number is appended to the name.
    PersistentSequential,
    /// Flags 3.
    EphemeralSequential,
    /// Flags 4: swept when its last child is gone.
    Container,
    /// Flags 5: swept when unchanged and childless for so many milliseconds. −1 if it came in a body that has no
    /// such field.
    Ttl(i64),
    /// Flags 6.
    TtlSequential(i64),
    /// Flags that `ZooKeeper` does not have: [`crate::ErrorCode::BadArguments`].
    Unknown(i32),
}

/// What a body without the field counts as.
const NO_TTL: i64 = -1;

impl CreateMode {
    /// The mode of these flags; `ttl_ms` counts only for those with a time-to-live.
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

    /// Its flags.
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

    /// Its time-to-live, milliseconds; none of a mode that has none.
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

/// Which of the operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CreateOp {
    /// Operation 1, answered by the path alone.
    Create,
    /// Operation 15, answered by path and stat.
    Create2,
    /// Operation 19, answered by path and stat.
    Container,
    /// Operation 21, the only one that carries a time-to-live, answered by path and stat.
    Ttl,
}

impl CreateOp {
    /// The operation of this number, if it creates.
    pub fn from_op(op: i32) -> Option<Self> {
        match op {
            op::CREATE => Some(Self::Create),
            op::CREATE2 => Some(Self::Create2),
            op::CREATE_CONTAINER => Some(Self::Container),
            op::CREATE_TTL => Some(Self::Ttl),
            _ => None,
        }
    }

    /// Its number.
    pub fn op(self) -> i32 {
        match self {
            Self::Create => op::CREATE,
            Self::Create2 => op::CREATE2,
            Self::Container => op::CREATE_CONTAINER,
            Self::Ttl => op::CREATE_TTL,
        }
    }

    /// Whether the answer carries the new node's stat.
    pub fn with_stat(self) -> bool {
        self != Self::Create
    }
}

/// A node to be made.
///
/// # Format
/// `string path, buffer data, vector<acl>, int flags`, and `long ttl` if [`CreateOp::Ttl`]. That operation with
/// flags that have no time-to-live is
/// [`crate::ErrorCode::BadArguments`] to `ZooKeeper`; its `ttl` is read and forgotten here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Create {
    /// Which operation.
    pub op: CreateOp,
    /// Where, as it came.
    pub path: String,
    /// Its first data.
    pub data: Option<Bytes>,
    /// Who may do what with it.
    pub acl: Vec<Acl>,
    /// What kind of node.
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
