//! The data of a znode: bytes, or null.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The data of a znode. ZooKeeper's protocol distinguishes null from empty data; all other readers see both as empty.
/// Cheap to clone; empty data allocates nothing. The default is empty.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Data(Option<Arc<[u8]>>);

impl Data {
    /// Null, not empty.
    pub const NULL: Self = Self(None);

    /// False for empty data.
    pub fn is_null(&self) -> bool {
        self.0.is_none()
    }
}

impl Deref for Data {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl AsRef<[u8]> for Data {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Default for Data {
    fn default() -> Self {
        Self(Some(Arc::default()))
    }
}

impl From<&[u8]> for Data {
    fn from(bytes: &[u8]) -> Self {
        if bytes.is_empty() { Self::default() } else { Self(Some(bytes.into())) }
    }
}

impl From<Vec<u8>> for Data {
    fn from(bytes: Vec<u8>) -> Self {
        bytes.as_slice().into()
    }
}

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_deref().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Option::<Vec<u8>>::deserialize(deserializer)?.map(Into::into)))
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(bytes) => fmt::Debug::fmt(bytes, f),
            None => f.write_str("null"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_differs_from_empty_data_but_both_read_as_empty() {
        let empty = Data::from(Vec::new());
        assert_ne!(empty, Data::NULL);
        assert!(Data::NULL.is_null() && !empty.is_null());
        assert_eq!((&*empty, &*Data::NULL), (&[][..], &[][..]));
        assert_eq!(&*Data::from(&b"x"[..]), b"x");
    }
}
