//! Fields of a query and of a form, and links with fields.

use holdfast_api::{escape_query, unescape_query};

/// Fields of a query and of a form, decoded. The first field with a name counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FormFields(Vec<(String, String)>);

impl FormFields {
    /// Reads `a=b&c=d`. A field with an invalid escape is left out.
    pub(crate) fn parse(text: &str) -> Self {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((
                unescape_query(name).ok()?.into_owned(),
                unescape_query(value).ok()?.into_owned(),
            ))
        };
        Self(text.split('&').filter(|text| !text.is_empty()).filter_map(pair).collect())
    }

    pub(crate) fn of_both(query: Option<&str>, form: &str) -> Self {
        let mut fields = Self::parse(form);
        fields.0.extend(Self::parse(query.unwrap_or_default()).0);
        fields
    }

    /// A value that is not empty, as it is: a name may begin or end with a space.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// A value that a reader types, without the spaces around it.
    pub(crate) fn typed(&self, name: &str) -> Option<&str> {
        self.get(name).map(str::trim).filter(|value| !value.is_empty())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// A relative link to a page: `lock?name=orders%2Feu`. Fields without a value are left out.
pub(crate) fn link(page: &str, fields: &[(&str, &str)]) -> String {
    let mut target = page.to_owned();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        let sign = if target.contains('?') { '&' } else { '?' };
        target.push(sign);
        target.push_str(name);
        target.push('=');
        target.push_str(&escape_query(value));
    }
    // A link without a page is the present folder.
    if target.is_empty() { "./".to_owned() } else { target }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_form_come_before_those_of_the_query() {
        let fields =
            FormFields::of_both(Some("name=a%2Fb&token=1"), "token=2&reason=+it%27s+&x=%zz");
        assert_eq!(fields.get("name"), Some("a/b"));
        assert_eq!(fields.get("token"), Some("2"));
        assert_eq!((fields.typed("reason"), fields.get("reason")), (Some("it's"), Some(" it's ")));
        assert_eq!(FormFields::parse("reason=+").typed("reason"), None);
        assert_eq!(fields.get("x"), None);
    }

    #[test]
    fn a_link_escapes_its_fields() {
        assert_eq!(link("lock", &[("name", "a/b&c"), ("q", "")]), "lock?name=a%2Fb%26c");
        assert_eq!(link("", &[]), "./");
        assert_eq!(link("act?do=x", &[("name", "a")]), "act?do=x&name=a");
    }
}
