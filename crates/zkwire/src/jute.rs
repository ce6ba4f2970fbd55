//! Jute, the encoding of ZooKeeper: big-endian integers, strings and buffers with a length, vectors with a count.
//!
//! A decoder compares a length or count with the rest of the frame before anything is allocated. A buffer shares the memory of
//! the frame; a string is a copy. An encoder counts the bytes first, so that the length of a frame is known and checked before
//! it is written.

use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;

/// The error of all decoders. It names the field at which decoding stopped.
///
/// The caller replies with [`crate::ErrorCode::MarshallingError`] if the header was decoded, else it closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The frame ends within a field.
    #[error("the frame ends within `{field}`: {have} bytes where {need} are needed")]
    Short { field: &'static str, have: usize, need: usize },
    /// Null in a field that must have a value.
    #[error("`{field}` is null")]
    Null { field: &'static str },
    /// A length or a count below −1.
    #[error("`{field}` says a length of {len}")]
    Length { field: &'static str, len: i32 },
    /// More items than the rest of the frame can hold.
    #[error("`{field}` says {count} items, and {have} bytes are left")]
    Count { field: &'static str, count: usize, have: usize },
    /// An operation that is unknown or cannot be part of a multi.
    #[error("operation {op} cannot be part of `{field}`")]
    Operation { field: &'static str, op: i32 },
    /// An unknown error.
    #[error("no error has the number {code}")]
    ErrorCode { code: i32 },
    /// A reply with an invalid request number.
    #[error("a reply to request {xid} where an event was expected")]
    NotAnEvent { xid: i32 },
}

/// The rest of a frame.
#[derive(Debug)]
pub(crate) struct Reader {
    rest: Bytes,
}

impl Reader {
    pub(crate) fn new(frame: Bytes) -> Self {
        Self { rest: frame }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn take(&mut self, field: &'static str, need: usize) -> Result<Bytes, DecodeError> {
        self.has(field, need)?;
        Ok(self.rest.split_to(need))
    }

    fn has(&self, field: &'static str, need: usize) -> Result<(), DecodeError> {
        let have = self.rest.len();
        if have < need { Err(DecodeError::Short { field, have, need }) } else { Ok(()) }
    }

    pub(crate) fn int(&mut self, field: &'static str) -> Result<i32, DecodeError> {
        self.has(field, 4)?;
        Ok(self.rest.get_i32())
    }

    pub(crate) fn long(&mut self, field: &'static str) -> Result<i64, DecodeError> {
        self.has(field, 8)?;
        Ok(self.rest.get_i64())
    }

    /// Any byte except 0 is true.
    pub(crate) fn boolean(&mut self, field: &'static str) -> Result<bool, DecodeError> {
        self.has(field, 1)?;
        Ok(self.rest.get_u8() != 0)
    }

    /// −1 is `None`.
    pub(crate) fn buffer(&mut self, field: &'static str) -> Result<Option<Bytes>, DecodeError> {
        match self.length(field)? {
            Some(len) => self.take(field, len).map(Some),
            None => Ok(None),
        }
    }

    /// A string that must not be null; invalid UTF-8 is replaced.
    pub(crate) fn string(&mut self, field: &'static str) -> Result<String, DecodeError> {
        let len = self.length(field)?.ok_or(DecodeError::Null { field })?;
        self.text(field, len)
    }

    /// Null is `None`.
    pub(crate) fn nullable(&mut self, field: &'static str) -> Result<Option<String>, DecodeError> {
        self.length(field)?.map(|len| self.text(field, len)).transpose()
    }

    /// Null is the empty string.
    pub(crate) fn string_or_empty(&mut self, field: &'static str) -> Result<String, DecodeError> {
        self.nullable(field).map(Option::unwrap_or_default)
    }

    fn text(&mut self, field: &'static str, len: usize) -> Result<String, DecodeError> {
        self.has(field, len)?;
        let text = String::from_utf8_lossy(&self.rest[..len]).into_owned();
        self.rest.advance(len);
        Ok(text)
    }

    fn length(&mut self, field: &'static str) -> Result<Option<usize>, DecodeError> {
        match self.int(field)? {
            -1 => Ok(None),
            len => usize::try_from(len).map(Some).map_err(|_| DecodeError::Length { field, len }),
        }
    }

    /// A vector that must not be null, whose items take at least `item_min` bytes each.
    pub(crate) fn vector<T>(
        &mut self,
        field: &'static str,
        item_min: usize,
        item: impl Fn(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        match self.int(field)? {
            -1 => Err(DecodeError::Null { field }),
            count if count < 0 => Err(DecodeError::Length { field, len: count }),
            count => self.items(field, count.unsigned_abs() as usize, item_min, item),
        }
    }

    /// A negative count is the empty vector.
    pub(crate) fn vector_or_empty<T>(
        &mut self,
        field: &'static str,
        item_min: usize,
        item: impl Fn(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let count = usize::try_from(self.int(field)?).unwrap_or_default();
        self.items(field, count, item_min, item)
    }

    fn items<T>(
        &mut self,
        field: &'static str,
        count: usize,
        item_min: usize,
        item: impl Fn(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let have = self.rest.len();
        if count > have / item_min {
            return Err(DecodeError::Count { field, count, have });
        }
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }

    pub(crate) fn strings(&mut self, field: &'static str) -> Result<Vec<String>, DecodeError> {
        self.vector(field, 4, |reader| reader.string(field))
    }
}

pub(crate) trait Sink: Sized {
    fn put(&mut self, bytes: &[u8]);

    fn int(&mut self, value: i32) {
        self.put(&value.to_be_bytes());
    }

    fn long(&mut self, value: i64) {
        self.put(&value.to_be_bytes());
    }

    fn boolean(&mut self, value: bool) {
        self.put(&[u8::from(value)]);
    }

    /// A length or a count. A frame of more than `i32::MAX` bytes is counted but never written, so the cast loses nothing.
    fn length(&mut self, len: usize) {
        self.int(i32::try_from(len).unwrap_or(i32::MAX));
    }

    fn string(&mut self, text: &str) {
        self.length(text.len());
        self.put(text.as_bytes());
    }

    /// `None` is null.
    fn nullable(&mut self, text: Option<&str>) {
        self.buffer(text.map(str::as_bytes));
    }

    /// `None` is −1.
    fn buffer(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => {
                self.length(bytes.len());
                self.put(bytes);
            }
            None => self.int(-1),
        }
    }

    fn vector<T>(&mut self, items: &[T], mut item: impl FnMut(&mut Self, &T)) {
        self.length(items.len());
        for each in items {
            item(self, each);
        }
    }

    fn strings(&mut self, items: &[String]) {
        self.vector(items, |out, text| out.string(text));
    }
}

impl Sink for BytesMut {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Counts the bytes.
#[derive(Debug, Default)]
pub(crate) struct Count {
    pub(crate) bytes: usize,
}

impl Sink for Count {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes = self.bytes.saturating_add(bytes.len());
    }
}

pub(crate) trait Record {
    fn write<S: Sink>(&self, out: &mut S);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(bytes: &[u8]) -> Reader {
        Reader::new(Bytes::copy_from_slice(bytes))
    }

    #[test]
    fn lengths_beyond_the_frame_are_refused() {
        let short = DecodeError::Short { field: "f", have: 1, need: 2 };
        assert_eq!(reader(&[0, 0, 0, 2, b'a']).string("f"), Err(short));
        assert_eq!(reader(&[0, 0, 0, 2, b'a']).buffer("f"), Err(short));
        let huge = DecodeError::Short { field: "f", have: 0, need: 0x7fff_ffff };
        assert_eq!(reader(&[0x7f, 0xff, 0xff, 0xff]).buffer("f"), Err(huge));
        assert_eq!(
            reader(&[0xff, 0xff, 0xff, 0xfe]).string("f"),
            Err(DecodeError::Length { field: "f", len: -2 })
        );
    }

    #[test]
    fn counts_beyond_the_frame_are_refused_before_anything_is_reserved() {
        let mut bytes = vec![0x7f, 0xff, 0xff, 0xff];
        bytes.extend([0; 8]);
        assert_eq!(
            reader(&bytes).strings("f"),
            Err(DecodeError::Count { field: "f", count: 0x7fff_ffff, have: 8 })
        );
        bytes[..4].copy_from_slice(&[0, 0, 0, 2]);
        assert_eq!(reader(&bytes).strings("f"), Ok(vec![String::new(); 2]));
        bytes[..4].copy_from_slice(&[0, 0, 0, 3]);
        assert!(matches!(reader(&bytes).strings("f"), Err(DecodeError::Count { .. })));
    }

    #[test]
    fn null_is_a_value_only_where_a_field_may_be_null() {
        assert_eq!(reader(&[0xff; 4]).buffer("f"), Ok(None));
        assert_eq!(reader(&[0; 4]).buffer("f"), Ok(Some(Bytes::new())));
        assert_eq!(reader(&[0xff; 4]).string("f"), Err(DecodeError::Null { field: "f" }));
        assert_eq!(reader(&[0xff; 4]).string_or_empty("f"), Ok(String::new()));
        assert_eq!(reader(&[0xff; 4]).strings("f"), Err(DecodeError::Null { field: "f" }));
        let item = |reader: &mut Reader| reader.int("i");
        assert_eq!(reader(&[0xff; 4]).vector_or_empty("f", 4, item), Ok(Vec::new()));
        assert_eq!(reader(&[0x80, 0, 0, 0]).vector_or_empty("f", 4, item), Ok(Vec::new()));
    }

    #[test]
    fn any_byte_but_zero_is_true() {
        assert_eq!(reader(&[2]).boolean("f"), Ok(true));
        assert_eq!(reader(&[0]).boolean("f"), Ok(false));
    }

    #[test]
    fn bytes_that_are_not_utf8_are_replaced() {
        let text = reader(&[0, 0, 0, 3, b'/', 0xff, b'a']).string("f");
        assert_eq!(text, Ok("/\u{fffd}a".to_owned()));
    }

    #[test]
    fn a_buffer_shares_the_memory_of_its_frame() {
        let frame = Bytes::from(vec![0, 0, 0, 2, 7, 8]);
        let data = Reader::new(frame.clone()).buffer("f").unwrap().unwrap();
        assert_eq!(data.as_ptr(), frame[4..].as_ptr());
    }
}
