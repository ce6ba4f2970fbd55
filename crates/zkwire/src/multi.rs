//! Several operations in one frame: atomic writes, or independent reads.
//!
//! Each item has a header, and a header with `done` ends the list. Items do not nest.

use bytes::Bytes;

use crate::jute::{Reader, Record, Sink};
use crate::{Create, CreateMode, CreateOp, DecodeError, ErrorCode, Stat, op};

/// Precedes each item and, with `done`, ends the list.
///
/// # Format
/// `int type, bool done, int err`.
struct Header {
    op: i32,
    err: i32,
}

impl Header {
    /// The error field in the header of a request's item, and of the end.
    const NO_ERR: i32 = -1;

    /// The header of the next item; `None` at the end.
    fn read(reader: &mut Reader) -> Result<Option<Self>, DecodeError> {
        let op = reader.int("type")?;
        let done = reader.boolean("done")?;
        let err = reader.int("err")?;
        Ok((!done).then_some(Self { op, err }))
    }

    fn write<S: Sink>(&self, out: &mut S) {
        out.int(self.op);
        out.boolean(false);
        out.int(self.err);
    }

    fn write_end<S: Sink>(out: &mut S) {
        out.int(op::ERROR);
        out.boolean(true);
        out.int(Self::NO_ERR);
    }
}

fn read_items<T>(
    reader: &mut Reader,
    item: impl Fn(&mut Reader, &Header) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let mut items = Vec::new();
    while let Some(header) = Header::read(reader)? {
        items.push(item(reader, &header)?);
    }
    Ok(items)
}

/// An item, which its header precedes.
pub(crate) trait MultiItem: Record {
    /// The number of the operation, and the error.
    fn header(&self) -> (i32, i32);
}

pub(crate) fn write_items<S: Sink>(out: &mut S, items: &[impl MultiItem]) {
    for item in items {
        let (op, err) = item.header();
        Header { op, err }.write(out);
        item.write(out);
    }
    Header::write_end(out);
}

/// A write or a version check in a multi.
///
/// # Format
/// The item's header with the operation's number, and that operation's body.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MultiOp {
    /// Create a node, with any of the four operations.
    Create(Create),
    Delete {
        path: String,
        /// The expected version; −1 matches any.
        version: i32,
    },
    SetData {
        path: String,
        data: Option<Bytes>,
        /// The expected version; −1 matches any.
        version: i32,
    },
    /// Fail the multi unless the node has the version.
    Check {
        path: String,
        /// The expected version; −1 matches any.
        version: i32,
    },
}

impl MultiOp {
    pub fn op(&self) -> i32 {
        match self {
            Self::Create(create) => create.op.op(),
            Self::Delete { .. } => op::DELETE,
            Self::SetData { .. } => op::SET_DATA,
            Self::Check { .. } => op::CHECK,
        }
    }

    pub(crate) fn read_all(reader: &mut Reader) -> Result<Vec<Self>, DecodeError> {
        read_items(reader, |reader, header| Self::read(reader, header.op))
    }

    fn read(reader: &mut Reader, number: i32) -> Result<Self, DecodeError> {
        if let Some(op) = CreateOp::from_op(number) {
            return Create::read(reader, op).map(Self::Create);
        }
        let path = |reader: &mut Reader| reader.string("path");
        let version = |reader: &mut Reader| reader.int("version");
        Ok(match number {
            op::DELETE => Self::Delete { path: path(reader)?, version: version(reader)? },
            op::SET_DATA => {
                let (path, data) = (path(reader)?, reader.buffer("data")?);
                Self::SetData { path, data, version: version(reader)? }
            }
            op::CHECK => Self::Check { path: path(reader)?, version: version(reader)? },
            op => return Err(DecodeError::Operation { field: "multi", op }),
        })
    }
}

impl MultiItem for MultiOp {
    fn header(&self) -> (i32, i32) {
        (self.op(), Header::NO_ERR)
    }
}

impl Record for MultiOp {
    fn write<S: Sink>(&self, out: &mut S) {
        match self {
            Self::Create(create) => create.write(out),
            Self::Delete { path, version } | Self::Check { path, version } => {
                out.string(path);
                out.int(*version);
            }
            Self::SetData { path, data, version } => {
                out.string(path);
                out.buffer(data.as_deref());
                out.int(*version);
            }
        }
    }
}

/// The result of an item of a multi.
///
/// # Format
/// Success: the header with the operation's number and error 0, then the operation's reply. Failure: the header with −1
/// and the error's number, then that number again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MultiResult {
    Created {
        /// With the number of a sequential node.
        path: String,
    },
    /// A container or a node with a time-to-live was created, with the result of operation 15.
    Created2 {
        /// With the number of a sequential node.
        path: String,
        stat: Stat,
    },
    Deleted,
    DataSet {
        stat: Stat,
    },
    /// The version matches.
    Checked,
    /// Error 0: this item would have succeeded, but a later one failed.
    RolledBack,
    /// This item failed. With [`ErrorCode::RuntimeInconsistency`] an earlier one failed.
    Failed(ErrorCode),
}

impl MultiResult {
    /// The result of a create in a multi: it has a stat for a container or a node with a time-to-live, whatever the
    /// operation.
    pub fn created(mode: CreateMode, path: String, stat: Stat) -> Self {
        match mode {
            CreateMode::Container | CreateMode::Ttl(_) | CreateMode::TtlSequential(_) => {
                Self::Created2 { path, stat }
            }
            CreateMode::Persistent
            | CreateMode::Ephemeral
            | CreateMode::PersistentSequential
            | CreateMode::EphemeralSequential
            | CreateMode::Unknown(_) => Self::Created { path },
        }
    }

    /// The results of a multi of `len` items in which item `at` (from 0) failed: error 0 before it, its error, −2 after it.
    pub fn failed(len: usize, at: usize, error: ErrorCode) -> Vec<Self> {
        let result = |i: usize| match i.cmp(&at) {
            std::cmp::Ordering::Less => Self::RolledBack,
            std::cmp::Ordering::Equal => Self::Failed(error),
            std::cmp::Ordering::Greater => Self::Failed(ErrorCode::RuntimeInconsistency),
        };
        (0..len).map(result).collect()
    }

    pub(crate) fn read_all(reader: &mut Reader) -> Result<Vec<Self>, DecodeError> {
        read_items(reader, |reader, header| Self::read(reader, header.op))
    }

    fn read(reader: &mut Reader, op: i32) -> Result<Self, DecodeError> {
        Ok(match op {
            op::CREATE => Self::Created { path: reader.string("path")? },
            op::CREATE2 | op::CREATE_CONTAINER | op::CREATE_TTL => {
                Self::Created2 { path: reader.string("path")?, stat: Stat::read(reader)? }
            }
            op::DELETE => Self::Deleted,
            op::SET_DATA => Self::DataSet { stat: Stat::read(reader)? },
            op::CHECK => Self::Checked,
            op::ERROR => read_error(reader)?.map_or(Self::RolledBack, Self::Failed),
            op => return Err(DecodeError::Operation { field: "multi", op }),
        })
    }
}

impl MultiItem for MultiResult {
    fn header(&self) -> (i32, i32) {
        match self {
            Self::Created { .. } => (op::CREATE, 0),
            Self::Created2 { .. } => (op::CREATE2, 0),
            Self::Deleted => (op::DELETE, 0),
            Self::DataSet { .. } => (op::SET_DATA, 0),
            Self::Checked => (op::CHECK, 0),
            Self::RolledBack => (op::ERROR, 0),
            Self::Failed(error) => (op::ERROR, error.code()),
        }
    }
}

impl Record for MultiResult {
    fn write<S: Sink>(&self, out: &mut S) {
        match self {
            Self::Created { path } => out.string(path),
            Self::Created2 { path, stat } => {
                out.string(path);
                stat.write(out);
            }
            Self::DataSet { stat } => stat.write(out),
            Self::Deleted | Self::Checked => {}
            Self::RolledBack => out.int(0),
            Self::Failed(error) => out.int(error.code()),
        }
    }
}

/// `None` for 0.
fn read_error(reader: &mut Reader) -> Result<Option<ErrorCode>, DecodeError> {
    match reader.int("err")? {
        0 => Ok(None),
        code => ErrorCode::from_code(code).map(Some).ok_or(DecodeError::ErrorCode { code }),
    }
}

/// A read in a multi-read.
///
/// # Format
/// The item's header with the operation's number, then `string path, bool watch`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReadOp {
    /// Data and stat.
    GetData {
        path: String,
        /// Whether to set a watch; clients always send false.
        watch: bool,
    },
    /// Names of the children.
    GetChildren {
        path: String,
        /// Whether to set a watch; clients always send false.
        watch: bool,
    },
}

impl ReadOp {
    pub fn op(&self) -> i32 {
        match self {
            Self::GetData { .. } => op::GET_DATA,
            Self::GetChildren { .. } => op::GET_CHILDREN,
        }
    }

    pub(crate) fn read_all(reader: &mut Reader) -> Result<Vec<Self>, DecodeError> {
        read_items(reader, |reader, header| {
            let op = header.op;
            if !matches!(op, op::GET_DATA | op::GET_CHILDREN) {
                return Err(DecodeError::Operation { field: "multiRead", op });
            }
            let (path, watch) = (reader.string("path")?, reader.boolean("watch")?);
            Ok(match op {
                op::GET_DATA => Self::GetData { path, watch },
                _ => Self::GetChildren { path, watch },
            })
        })
    }
}

impl MultiItem for ReadOp {
    fn header(&self) -> (i32, i32) {
        (self.op(), Header::NO_ERR)
    }
}

impl Record for ReadOp {
    fn write<S: Sink>(&self, out: &mut S) {
        match self {
            Self::GetData { path, watch } | Self::GetChildren { path, watch } => {
                out.string(path);
                out.boolean(*watch);
            }
        }
    }
}

/// The result of one read in a multi-read. Reads fail independently.
///
/// # Format
/// As [`MultiResult`]'s.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReadResult {
    Data {
        data: Option<Bytes>,
        stat: Stat,
    },
    /// Names of the children.
    Children(Vec<String>),
    Failed(ErrorCode),
}

impl ReadResult {
    pub(crate) fn read_all(reader: &mut Reader) -> Result<Vec<Self>, DecodeError> {
        read_items(reader, |reader, header| match header.op {
            op::GET_DATA => {
                Ok(Self::Data { data: reader.buffer("data")?, stat: Stat::read(reader)? })
            }
            op::GET_CHILDREN => Ok(Self::Children(reader.strings("children")?)),
            op::ERROR => {
                let error = read_error(reader)?;
                error.map(Self::Failed).ok_or(DecodeError::ErrorCode { code: 0 })
            }
            op => Err(DecodeError::Operation { field: "multiRead", op }),
        })
    }
}

impl MultiItem for ReadResult {
    fn header(&self) -> (i32, i32) {
        match self {
            Self::Data { .. } => (op::GET_DATA, 0),
            Self::Children(_) => (op::GET_CHILDREN, 0),
            Self::Failed(error) => (op::ERROR, error.code()),
        }
    }
}

impl Record for ReadResult {
    fn write<S: Sink>(&self, out: &mut S) {
        match self {
            Self::Data { data, stat } => {
                out.buffer(data.as_deref());
                stat.write(out);
            }
            Self::Children(children) => out.strings(children),
            Self::Failed(error) => out.int(error.code()),
        }
    }
}
