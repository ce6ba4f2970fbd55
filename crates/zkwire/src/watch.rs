//! Which watches a request means.
//!
//! Owns two small enums of requests, with unknown numbers kept so that the door can refuse them.

/// How a watch of `addWatch` behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddWatchMode {
    /// 0: fires each time, for the node's data and its children.
    Persistent,
    /// 1: fires each time, for the data of the whole subtree.
    PersistentRecursive,
    /// Another number: [`crate::ErrorCode::MarshallingError`].
    Unknown(i32),
}

impl AddWatchMode {
    /// The mode of a number.
    pub fn from_code(code: i32) -> Self {
        match code {
            0 => Self::Persistent,
            1 => Self::PersistentRecursive,
            code => Self::Unknown(code),
        }
    }

    /// Its number.
    pub fn code(self) -> i32 {
        match self {
            Self::Persistent => 0,
            Self::PersistentRecursive => 1,
            Self::Unknown(code) => code,
        }
    }
}

/// Which watches of a path `checkWatches` and `removeWatches` mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WatcherType {
    /// 1: those on the children.
    Children,
    /// 2: those on the data.
    Data,
    /// 3: all.
    Any,
    /// Another number: [`crate::ErrorCode::MarshallingError`].
    Unknown(i32),
}

impl WatcherType {
    /// The type of a number.
    pub fn from_code(code: i32) -> Self {
        match code {
            1 => Self::Children,
            2 => Self::Data,
            3 => Self::Any,
            code => Self::Unknown(code),
        }
    }

    /// Its number.
    pub fn code(self) -> i32 {
        match self {
            Self::Children => 1,
            Self::Data => 2,
            Self::Any => 3,
            Self::Unknown(code) => code,
        }
    }
}
