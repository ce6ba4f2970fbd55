//! Encodes strings as words of a script, without spaces, and decodes them.
//!
//! Letters, digits and a few signs are literal, every other byte is `%` and two hex digits, and the empty string is `""`.

use bytes::Bytes;

/// The word of an empty string.
const EMPTY: &str = "\"\"";
/// The word of missing data, where that differs from empty data.
pub(crate) const NULL: &str = "null";

/// Bytes as a word.
pub(crate) fn word(bytes: impl AsRef<[u8]>) -> String {
    let bytes = bytes.as_ref();
    if bytes.is_empty() {
        return EMPTY.to_owned();
    }
    let mut out = String::new();
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"/_.-^+=".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            for digit in [byte >> 4, byte & 15] {
                out.push(char::from_digit(u32::from(digit), 16).unwrap_or('?'));
            }
        }
    }
    out
}

/// Long data as a short word: its prefix and its length.
pub(crate) fn short(bytes: &[u8]) -> String {
    if bytes.len() <= 64 {
        return word(bytes);
    }
    format!("{}..{}", word(&bytes[..16]), bytes.len())
}

/// The bytes of a word.
///
/// # Errors
/// The word, if an escape in it is none.
pub(crate) fn bytes(word: &str) -> Result<Vec<u8>, String> {
    if word == EMPTY {
        return Ok(Vec::new());
    }
    let mut parts = word.split('%');
    let mut out = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let code = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        out.push(code.ok_or_else(|| format!("{word}: no escape"))?);
        out.extend(&part.as_bytes()[2..]);
    }
    Ok(out)
}

/// The string of a word.
///
/// # Errors
/// The word, if it is no string.
pub(crate) fn text(word: &str) -> Result<String, String> {
    String::from_utf8(bytes(word)?).map_err(|_| format!("{word}: no text"))
}

/// Data, or none.
pub(crate) fn data_word(data: Option<&Bytes>) -> String {
    data.map_or_else(|| NULL.to_owned(), word)
}

/// The data of a word.
///
/// # Errors
/// The word, if an escape in it is none.
pub(crate) fn data(word: &str) -> Result<Option<Bytes>, String> {
    if word == NULL { Ok(None) } else { bytes(word).map(|bytes| Some(bytes.into())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_string_round_trips_as_one_word() {
        for string in ["", "/a/b-0000000001", "/a\0", "a b%", "ü", "null ", "\"\""] {
            let word = word(string);
            assert!(!word.contains(' ') && !word.is_empty(), "{word}");
            assert_eq!(text(&word).unwrap(), string);
        }
        assert_eq!(word("/a b"), "/a%20b");
        assert!(bytes("%zz").is_err() && bytes("%1").is_err());
        assert_eq!(data(&data_word(None)).unwrap(), None);
    }
}
