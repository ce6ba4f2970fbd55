//! Reads the three lists of a transaction. Bound: [`ITEMS_MAX`] items of all lists; the reader stops at the first item
//! above it and keeps nothing of the rest.

use std::cell::Cell;
use std::fmt;

use holdfast_api::{CallParams as _, ErrorCode, JsonPairs, ParamError};
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use super::{FORM, TxnParams};

/// The maximum number of conditions and operations of a transaction. An item has up to a hundred times its bytes in memory.
pub(super) const ITEMS_MAX: usize = 1_000;

/// The body before its items are parsed.
#[derive(Debug, Default)]
pub(super) struct Lists {
    pub(super) conditions: Option<Vec<JsonPairs>>,
    pub(super) then: Option<Vec<JsonPairs>>,
    pub(super) otherwise: Option<Vec<JsonPairs>>,
    /// The remaining parameters of the call.
    pub(super) rest: JsonPairs,
}

/// Why a body is not a transaction.
#[derive(Debug)]
pub(super) enum Unread {
    /// The lists have more than [`ITEMS_MAX`] items.
    TooMany,
    Malformed(ParamError),
}

impl From<ParamError> for Unread {
    fn from(error: ParamError) -> Self {
        Self::Malformed(error)
    }
}

impl Lists {
    /// Reads a body.
    ///
    /// # Errors
    /// [`Unread`].
    pub(super) fn read(body: &[u8]) -> Result<Self, Unread> {
        let left = Cell::new(Some(ITEMS_MAX));
        let mut json = serde_json::Deserializer::from_slice(body);
        let read = ListsReader { left: &left }.deserialize(&mut json);
        let lists = read.and_then(|lists| json.end().map(|()| lists)).map_err(|error| {
            if left.get().is_none() {
                return Unread::TooMany;
            }
            let detail = format!("the body is not a transaction: {error}");
            ParamError::new(ErrorCode::InvalidArgument, detail).hint(FORM).into()
        })?;
        let is_empty =
            [&lists.conditions, &lists.then, &lists.otherwise].iter().all(|l| l.is_none());
        if is_empty && lists.rest.keys().all(|key| TxnParams::LIST.takes(key)) {
            let detail = "a transaction without 'if', 'then' and 'else' does nothing";
            return Err(ParamError::new(ErrorCode::InvalidArgument, detail).hint(FORM).into());
        }
        Ok(lists)
    }
}

/// Reads the object. `left` is how many more items the lists may have; `None` once they had one more.
struct ListsReader<'a> {
    left: &'a Cell<Option<usize>>,
}

impl<'de> DeserializeSeed<'de> for ListsReader<'_> {
    type Value = Lists;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Lists, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ListsReader<'_> {
    type Value = Lists;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Lists, A::Error> {
        let mut lists = Lists::default();
        while let Some(key) = map.next_key::<String>()? {
            let (list, name) = match key.as_str() {
                "if" => (&mut lists.conditions, "if"),
                "then" => (&mut lists.then, "then"),
                "else" => (&mut lists.otherwise, "else"),
                _ => {
                    let value = map.next_value()?;
                    lists.rest.push(key, value).map_err(A::Error::custom)?;
                    continue;
                }
            };
            if list.is_some() {
                return Err(A::Error::duplicate_field(name));
            }
            *list = map.next_value_seed(ListReader { left: self.left })?;
        }
        Ok(lists)
    }
}

/// Reads one list, or `null`.
struct ListReader<'a> {
    left: &'a Cell<Option<usize>>,
}

impl<'de> DeserializeSeed<'de> for ListReader<'_> {
    type Value = Option<Vec<JsonPairs>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ListReader<'_> {
    type Value = Option<Vec<JsonPairs>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(left) = self.left.get().filter(|left| *left > 0) {
            let Some(item) = seq.next_element()? else { return Ok(Some(items)) };
            items.push(item);
            self.left.set(Some(left - 1));
        }
        if seq.next_element::<IgnoredAny>()?.is_some() {
            self.left.set(None);
            return Err(A::Error::custom("too many items"));
        }
        Ok(Some(items))
    }
}
