//! Percent-encoding, decoded exactly once.
//!
//! Every escape must be well-formed and the result UTF-8; nothing is normalised. `holdfast-types` checks decoded names.

use std::borrow::Cow;

use thiserror::Error;

/// An invalid percent-encoding in a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EscapeError {
    /// A `%` without two hexadecimal digits.
    #[error("a '%' must be followed by two hexadecimal digits; write a '%' itself as %25")]
    Malformed,
    /// The decoded bytes are not UTF-8.
    #[error("after percent-decoding it is not UTF-8")]
    NotUtf8,
}

/// Decodes a part of a path.
///
/// # Errors
/// [`EscapeError`] for a broken escape or bytes that are not UTF-8.
pub fn unescape_path(text: &str) -> Result<Cow<'_, str>, EscapeError> {
    unescape(text, false)
}

/// Decodes a key or a value of a query; `+` is a space, as in HTML forms.
///
/// # Errors
/// [`EscapeError`] for a broken escape or bytes that are not UTF-8.
pub fn unescape_query(text: &str) -> Result<Cow<'_, str>, EscapeError> {
    unescape(text, true)
}

/// Encodes a name for a path; `/` stays.
pub fn escape_path(text: &str) -> Cow<'_, str> {
    escape(text, b"/")
}

/// Encodes a key or a value for a query.
pub fn escape_query(text: &str) -> Cow<'_, str> {
    escape(text, b"")
}

fn escape<'a>(text: &'a str, keep: &[u8]) -> Cow<'a, str> {
    const HEX: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
    let is_plain =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte) || keep.contains(byte);
    // Most names need no escape.
    if text.as_bytes().iter().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if is_plain(&byte) {
            out.push(char::from(byte));
        } else {
            out.extend(['%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
    Cow::Owned(out)
}

fn unescape(text: &str, plus_is_space: bool) -> Result<Cow<'_, str>, EscapeError> {
    let special = |b: u8| b == b'%' || (plus_is_space && b == b'+');
    if !text.bytes().any(special) {
        return Ok(Cow::Borrowed(text));
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => hex_pair(bytes.next(), bytes.next())?,
            b'+' if plus_is_space => b' ',
            other => other,
        });
    }
    String::from_utf8(out).map(Cow::Owned).map_err(|_| EscapeError::NotUtf8)
}

fn hex_pair(high: Option<u8>, low: Option<u8>) -> Result<u8, EscapeError> {
    let digit = |byte: Option<u8>| {
        let value = byte.and_then(|b| char::from(b).to_digit(16)).ok_or(EscapeError::Malformed)?;
        u8::try_from(value).map_err(|_| EscapeError::Malformed)
    };
    Ok((digit(high)? << 4) | digit(low)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_are_decoded_once() {
        assert_eq!(unescape_path("a%2Fb%2fc").unwrap(), "a/b/c");
        assert_eq!(unescape_path("%252e").unwrap(), "%2e");
        assert_eq!(unescape_path("a+b").unwrap(), "a+b");
        assert_eq!(unescape_query("a+b%2B").unwrap(), "a b+");
        assert!(matches!(unescape_query("plain"), Ok(Cow::Borrowed("plain"))));
    }

    #[test]
    fn broken_escapes_and_invalid_utf8_are_rejected() {
        for broken in ["%", "%2", "%zz", "%+1", "a%", "%%41"] {
            assert_eq!(unescape_path(broken), Err(EscapeError::Malformed), "{broken}");
        }
        for bytes in ["%ff", "%c3%28", "%ed%a0%80"] {
            assert_eq!(unescape_path(bytes), Err(EscapeError::NotUtf8), "{bytes}");
        }
    }

    proptest! {
        #[test]
        fn escaped_text_decodes_to_the_same_text(text in "\\PC*|[%+&=/?# ]{0,20}") {
            let (path, query) = (escape_path(&text), escape_query(&text));
            prop_assert_eq!(unescape_path(&path).unwrap(), text.as_str());
            prop_assert_eq!(unescape_query(&query).unwrap(), text.as_str());
        }
    }
}
