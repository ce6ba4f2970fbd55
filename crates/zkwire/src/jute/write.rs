//! Writing primitives into a buffer, or only counting them.
//!
//! Owns the two sinks: one writes, one counts, so that a frame's length is known before its first byte. Refuses to
//! check lengths: whoever makes a frame has counted it and refused one that is too long.

use bytes::BytesMut;

/// Where bytes go.
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

    /// A length or a count. A frame of more than `i32::MAX` bytes is counted but never written, so nothing is cut here.
    fn length(&mut self, len: usize) {
        self.int(i32::try_from(len).unwrap_or(i32::MAX));
    }

    fn string(&mut self, text: &str) {
        self.length(text.len());
        self.put(text.as_bytes());
    }

    /// None is null.
    fn nullable(&mut self, text: Option<&str>) {
        self.buffer(text.map(str::as_bytes));
    }

    /// None is −1.
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

/// Counts what would be written.
#[derive(Debug, Default)]
pub(crate) struct Count {
    pub(crate) bytes: usize,
}

impl Sink for Count {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes = self.bytes.saturating_add(bytes.len());
    }
}

/// Something that is written in one piece.
pub(crate) trait Record {
    fn write<S: Sink>(&self, out: &mut S);
}
