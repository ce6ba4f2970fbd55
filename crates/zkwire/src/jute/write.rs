//! Encodes primitives into a buffer, or counts their bytes.
//!
//! Counting comes first, so that the length of a frame is known and checked before it is written.

use bytes::BytesMut;

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
