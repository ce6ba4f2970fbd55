//! The cookies: the access token of the login, and the secret that every form repeats.
//!
//! Another site knows neither, and no script can read them.

use std::fmt::Write as _;
use std::time::Duration;

use axum::http::header::{COOKIE, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use holdfast_api::ErrorCode;
use maud::{Markup, html};

use crate::call::{ApiResult, SEC_FETCH_SITE, problem};
use crate::fields::FormFields;
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
}
