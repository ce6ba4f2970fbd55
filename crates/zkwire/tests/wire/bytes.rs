//! A notation for golden bytes: groups of hexadecimal digits, and text between quotes.

use bytes::Bytes;

/// `"00000002 '/a' ff"` is seven bytes.
pub(crate) fn bytes(notation: &str) -> Bytes {
    let mut out = Vec::new();
    for (i, part) in notation.split('\'').enumerate() {
        if i % 2 == 1 {
            out.extend_from_slice(part.as_bytes());
            continue;
        }
        for group in part.split_whitespace() {
            assert_eq!(group.len() % 2, 0, "half a byte in {group}");
            let digits = (0..group.len()).step_by(2);
            out.extend(digits.map(|at| u8::from_str_radix(&group[at..at + 2], 16).unwrap()));
        }
    }
    out.into()
}

/// The same bytes, preceded by their length.
pub(crate) fn framed(notation: &str) -> Bytes {
    let body = bytes(notation);
    let len = u32::try_from(body.len()).unwrap();
    [&len.to_be_bytes()[..], &body[..]].concat().into()
}

#[test]
fn hexadecimal_digits_and_quoted_text_become_bytes() {
    assert_eq!(bytes("00000002 '/a' ff"), [0, 0, 0, 2, b'/', b'a', 0xff][..]);
    assert_eq!(framed("'x'"), [0, 0, 0, 1, b'x'][..]);
}
