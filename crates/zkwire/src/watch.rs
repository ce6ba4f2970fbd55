//! The kinds of watches in requests. Unknown numbers are kept, so that the front-end can reject them.

/// The mode of `addWatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddWatchMode {
    /// 0: fires for every change of the node's data and children.
    Persistent,
    /// 1: fires for every change of data in the subtree.
    PersistentRecursive,
    /// Another number: [`crate::ErrorCode::MarshallingError`].
    Unknown(i32),
}

impl AddWatchMode {
    pub fn from_code(code: i32) -> Self {
        match code {
            0 => Self::Persistent,
            1 => Self::PersistentRecursive,
            code => Self::Unknown(code),
        }
    }

    pub fn code(self) -> i32 {
        match self {
            Self::Persistent => 0,
            Self::PersistentRecursive => 1,
            Self::Unknown(code) => code,
        }
    }
}

/// The watches of a path that `checkWatches` and `removeWatches` select.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WatcherType {
    /// 1.
    Children,
    /// 2.
    Data,
    /// 3.
    Any,
    /// Another number: [`crate::ErrorCode::MarshallingError`].
    Unknown(i32),
}

impl WatcherType {
    pub fn from_code(code: i32) -> Self {
        match code {
            1 => Self::Children,
            2 => Self::Data,
            3 => Self::Any,
            code => Self::Unknown(code),
        }
    }

    pub fn code(self) -> i32 {
        match self {
            Self::Children => 1,
            Self::Data => 2,
            Self::Any => 3,
            Self::Unknown(code) => code,
        }
    }
}
