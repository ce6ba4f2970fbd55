//! What a browser sends: the fields of queries and forms, the cookie of the login, and the secret that every form repeats.
//!
//! Another site knows neither cookie nor secret, and no script can read them.

use std::fmt::Write as _;
use std::time::Duration;

use axum::http::header::{COOKIE, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use holdfast_api::{ErrorCode, escape_query, unescape_query};
use maud::{Markup, html};

use crate::call::{ApiResult, SEC_FETCH_SITE, problem};
use crate::text::hexadecimal;

/// What begins the value of a cookie with a token that the login created.
pub(crate) const DERIVED: &str = "derived.";
pub(crate) const GIVEN: &str = "given.";
/// Bytes of the secret of forms.
const SECRET_BYTES: usize = 16;

/// The secret that each form of this browser repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FormSecret {
    text: String,
    /// Whether the browser does not have it yet.
    is_new: bool,
    has_tls: bool,
}

impl FormSecret {
    pub(crate) fn of(parts: &Parts, has_tls: bool) -> Self {
        let known = cookie(parts, &cookie_name("holdfast-form", has_tls));
        let known = known.filter(|text| text.len() == SECRET_BYTES * 2).map(str::to_owned);
        let is_new = known.is_none();
        Self { text: known.unwrap_or_else(random_text), is_new, has_tls }
    }

    pub(crate) fn field(&self) -> Markup {
        html! { input type="hidden" name="form" value=(self.text); }
    }

    /// The cookie for a browser that does not have it.
    pub(crate) fn set_cookie(&self) -> Option<HeaderValue> {
        let name = cookie_name("holdfast-form", self.has_tls);
        if self.is_new { set_cookie(&name, &self.text, None, self.has_tls) } else { None }
    }

    /// Rejects a form that no page of this console has sent.
    ///
    /// # Errors
    /// `foreign-site`
    pub(crate) fn check(&self, parts: &Parts, fields: &FormFields) -> ApiResult<()> {
        let names_its_site =
            parts.headers.contains_key(ORIGIN) || parts.headers.contains_key(&SEC_FETCH_SITE);
        let code = (ErrorCode::ForeignSite, StatusCode::FORBIDDEN);
        if !names_its_site {
            let detail = "the call names no site: it has neither Origin nor Sec-Fetch-Site";
            return Err(problem(code, detail, "programs call the API itself: GET /docs"));
        }
        // An empty text is no secret.
        if self.is_new || fields.get("form") != Some(&self.text) {
            let detail = "the form is not one of this console, or cookies are blocked";
            return Err(problem(code, detail, "allow cookies, open the page again and repeat"));
        }
        Ok(())
    }
}

/// The access token of the login.
pub(crate) fn token_of(parts: &Parts, has_tls: bool) -> Option<&str> {
    let value = cookie(parts, &cookie_name("holdfast", has_tls))?;
    value.strip_prefix(DERIVED).or_else(|| value.strip_prefix(GIVEN))
}

pub(crate) fn has_derived_token(parts: &Parts, has_tls: bool) -> bool {
    cookie(parts, &cookie_name("holdfast", has_tls)).is_some_and(|v| v.starts_with(DERIVED))
}

pub(crate) fn cookie_name(name: &str, has_tls: bool) -> String {
    // Browsers accept the prefix only for a cookie of this host that needs TLS.
    if has_tls { format!("__Host-{name}") } else { name.to_owned() }
}

fn cookie<'p>(parts: &'p Parts, name: &str) -> Option<&'p str> {
    let values = parts.headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = values.flat_map(|value| value.split(';'));
    pairs.find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
}

pub(crate) fn set_cookie(
    name: &str,
    value: &str,
    lifetime: Option<Duration>,
    has_tls: bool,
) -> Option<HeaderValue> {
    let mut text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict");
    if has_tls {
        text.push_str("; Secure");
    }
    if let Some(lifetime) = lifetime {
        // A `String` accepts every write.
        let _infallible = write!(text, "; Max-Age={}", lifetime.as_secs());
    }
    text.try_into().ok()
}

fn random_text() -> String {
    let mut bytes = [0_u8; SECRET_BYTES];
    // Without randomness the text is empty, and no form is accepted.
    if getrandom::fill(&mut bytes).is_err() {
        return String::new();
    }
    hexadecimal(&bytes)
}

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
    use axum::http::Request;

    use super::*;

    const LOGIN_MAX: Duration = Duration::from_hours(8);

    fn parts(cookies: &str, origin: Option<&str>) -> Parts {
        let mut request = Request::builder().header(COOKIE, cookies);
        if let Some(origin) = origin {
            request = request.header(ORIGIN, origin);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_cookie_is_for_this_host_only_and_no_script_reads_it() {
        let plain = set_cookie("holdfast", "given.x", Some(LOGIN_MAX), false).unwrap();
        assert_eq!(plain, "holdfast=given.x; Path=/; HttpOnly; SameSite=Strict; Max-Age=28800");
        let name = cookie_name("holdfast", true);
        let with_tls = set_cookie(&name, "given.x", None, true).unwrap();
        assert_eq!(with_tls, "__Host-holdfast=given.x; Path=/; HttpOnly; SameSite=Strict; Secure");
        assert!(set_cookie("holdfast", "a\nb", None, false).is_none());
    }

    #[test]
    fn a_token_is_read_from_the_cookie_of_its_scheme() {
        let both = parts("a=b; holdfast=given.one; __Host-holdfast=derived.two", None);
        assert_eq!((token_of(&both, false), token_of(&both, true)), (Some("one"), Some("two")));
        assert!(!has_derived_token(&both, false) && has_derived_token(&both, true));
        assert_eq!(token_of(&parts("holdfast=other", None), false), None);
        assert_eq!(token_of(&parts("holdfast-form=given.x", None), false), None);
    }

    #[test]
    fn a_form_needs_a_site_and_the_secret_of_the_browser() {
        let secret = "0".repeat(SECRET_BYTES * 2);
        let cookies = format!("holdfast-form={secret}");
        let fields = FormFields::parse(&format!("form={secret}"));
        let check =
            |parts: &Parts, fields: &FormFields| FormSecret::of(parts, false).check(parts, fields);
        let origin = Some("http://localhost:7400");
        assert!(check(&parts(&cookies, origin), &fields).is_ok());
        for (cookies, origin, fields) in [
            (cookies.as_str(), None, &fields),
            (cookies.as_str(), origin, &FormFields::parse("form=1")),
            (cookies.as_str(), origin, &FormFields::default()),
            ("", origin, &fields),
            ("holdfast-form=", origin, &FormFields::parse("form=")),
        ] {
            let refused = check(&parts(cookies, origin), fields).unwrap_err();
            assert_eq!(refused.code, ErrorCode::ForeignSite);
            assert_eq!(refused.status, 403);
        }
    }

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
