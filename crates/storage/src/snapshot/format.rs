//! The layout of a snapshot file: a header and sections; the last section is the footer. Numbers are little endian.
//!
//! ```text
//! header   "HFSNAP" 1 0
//! section  kind(1) length(4) checksum(4) body       CRC-32C of kind, length and body
//!   1 part    the caller's bytes, at most PART_BYTES_MAX
//!   2 meta    the caller's bytes, after the last part
//!   3 footer  parts(8) bytes-of-parts(8) offset-of-meta(8) whole(4)    CRC-32C of every byte before the footer
//! ```

/// The maximum length of a part and of the meta, bytes.
pub const PART_BYTES_MAX: usize = 16 << 20;

pub(super) const HEADER: [u8; 8] = *b"HFSNAP\x01\x00";
pub(super) const SECTION_HEADER_LEN: usize = 9;
pub(super) const FOOTER_BODY_LEN: usize = 28;
pub(super) const FOOTER_LEN: u64 = (SECTION_HEADER_LEN + FOOTER_BODY_LEN) as u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum SectionKind {
    Part = 1,
    Meta = 2,
    Footer = 3,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) parts: u64,
    pub(super) bytes: u64,
    pub(super) meta_offset: u64,
    pub(super) whole: u32,
}

impl Footer {
    pub(super) fn encode(&self) -> [u8; FOOTER_BODY_LEN] {
        let mut body = [0; FOOTER_BODY_LEN];
        body[..8].copy_from_slice(&self.parts.to_le_bytes());
        body[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        body[16..24].copy_from_slice(&self.meta_offset.to_le_bytes());
        body[24..].copy_from_slice(&self.whole.to_le_bytes());
        body
    }

    pub(super) fn decode(body: &[u8]) -> Option<Self> {
        let body: &[u8; FOOTER_BODY_LEN] = body.try_into().ok()?;
        let number = |at: usize| body[at..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let whole = u32::from_le_bytes(*body.last_chunk()?);
        let [parts, bytes, meta_offset] = [number(0)?, number(8)?, number(16)?];
        Some(Self { parts, bytes, meta_offset, whole })
    }
}

pub(super) fn section_header(kind: SectionKind, body: &[u8]) -> [u8; SECTION_HEADER_LEN] {
    let mut header = [0; SECTION_HEADER_LEN];
    header[0] = kind as u8;
    header[1..5].copy_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c(&header[..5]), body);
    header[5..].copy_from_slice(&sum.to_le_bytes());
    header
}

/// Returns the length of a section's body if the header has this kind and an allowed length.
pub(super) fn body_len(kind: SectionKind, header: &[u8; SECTION_HEADER_LEN]) -> Option<usize> {
    let len = u32::from_le_bytes(*header[1..5].first_chunk()?) as usize;
    (header[0] == kind as u8 && len <= PART_BYTES_MAX).then_some(len)
}
