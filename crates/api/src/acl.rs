//! Access lists as text: one entry is `scheme:id:perms`, such as `world:anyone:r` or `digest:me:<hash>:cdrwa`.

use holdfast_types::{AclEntry, Identity, Perms};

use crate::{Param, ParamError, ParamValue};

/// The letters of the permissions.
const LETTERS: [(char, Perms); 5] = [
    ('c', Perms::CREATE),
    ('d', Perms::DELETE),
    ('r', Perms::READ),
    ('w', Perms::WRITE),
    ('a', Perms::ADMIN),
];

/// Reads one entry. The id is the text between the first and the last colon, and may be empty (`auth::cdrwa`).
///
/// # Errors
/// [`ParamError`] with the valid form as its hint.
pub fn parse_acl_entry(text: &str) -> Result<AclEntry, ParamError> {
    let (scheme, rest) = text.split_once(':').ok_or_else(|| malformed(text))?;
    let (id, letters) = rest.rsplit_once(':').ok_or_else(|| malformed(text))?;
    let perms = perms(letters).filter(|_| !scheme.is_empty()).ok_or_else(|| malformed(text))?;
    Ok(AclEntry { perms, who: Identity { scheme: scheme.to_owned(), id: id.to_owned() } })
}

/// Writes one entry as [`parse_acl_entry`] reads it.
pub fn format_acl_entry(entry: &AclEntry) -> String {
    format!("{}:{}:{}", entry.who.scheme, entry.who.id, entry.perms)
}

impl ParamValue for AclEntry {
    fn parse(_: &Param, text: &str) -> Result<Self, ParamError> {
        parse_acl_entry(text)
    }

    fn to_text(&self) -> String {
        format_acl_entry(self)
    }
}

/// Each letter at most once, and at least one.
fn perms(letters: &str) -> Option<Perms> {
    let mut found: Option<Perms> = None;
    for letter in letters.chars() {
        let (_, perm) = LETTERS.into_iter().find(|(known, _)| *known == letter)?;
        found = match found {
            Some(before) if before.intersects(perm) => return None,
            Some(before) => Some(before | perm),
            None => Some(perm),
        };
    }
    found
}

fn malformed(text: &str) -> ParamError {
    let shown = &text[..text.floor_char_boundary(64)];
    let detail = format!("'{shown}' is not an entry of an access list");
    ParamError::invalid("acl", detail)
        .hint("write scheme:id:perms with letters of cdrwa, such as world:anyone:r, auth::cdrwa or ip:10.0.0.0/8:cr")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ErrorCode;

    #[test]
    fn entries_read_back_as_written() {
        for text in [
            "world:anyone:cdrwa",
            "auth::cdrwa",
            "digest:me:ZHvvlPbQDKrYvRCHGlAXmxzq6Zo=:r",
            "ip:10.0.0.0/8:cr",
            "ip:fe80::1:w",
        ] {
            assert_eq!(format_acl_entry(&parse_acl_entry(text).unwrap()), text);
        }
        assert_eq!(parse_acl_entry("world:anyone:adrwc").unwrap(), AclEntry::open());
    }

    #[test]
    fn invalid_entries_are_rejected_with_the_valid_form() {
        for text in ["", "r", "world:anyone", "world:anyone:", "::", ":x:r", "a:b:rx", "a:b:rr"] {
            let error = parse_acl_entry(text).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidArgument, "{text}");
            assert!(error.hint.unwrap().starts_with("write scheme:id:perms"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_rejected(text in "\\PC*|[a-z:]{0,12}") {
            if let Ok(entry) = parse_acl_entry(&text) {
                prop_assert_eq!(parse_acl_entry(&format_acl_entry(&entry)), Ok(entry));
            }
        }
    }
}
