//! One request, and its bytes on a connection.

use std::time::Duration;

use http::Method;

use crate::http::SendError;

/// A caller cannot set these: they say where the request ends.
const FRAMING: [&str; 2] = ["content-length", "transfer-encoding"];

/// One request to one node.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    pub method: Method,
    pub url: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// Empty for most calls.
    pub body: Vec<u8>,
    /// The time from sending the request to receiving the last byte of the answer.
    pub timeout: Duration,
}

impl HttpRequest {
    /// Creates a request without headers and body.
    pub fn new(method: Method, url: impl Into<String>, timeout: Duration) -> Self {
        Self { method, url: url.into(), headers: Vec::new(), body: Vec::new(), timeout }
    }

    /// Splits the URL into the address of the node, and the path with the query. A fragment stays here.
    pub(super) fn split_url(&self) -> (&str, &str) {
        let url = self.url.split_once('#').map_or(self.url.as_str(), |(url, _)| url);
        let host = url.find("://").map_or(0, |at| at + 3);
        let end = url[host..].find(['/', '?']).map_or(url.len(), |at| host + at);
        url.split_at(end)
    }

    /// Returns the bytes of the request to the target of its URL.
    ///
    /// # Errors
    /// [`SendError`] for a text that would end its line or is not HTTP.
    pub(super) fn to_bytes(
        &self,
        host: &str,
        target: &str,
        authorization: Option<&str>,
    ) -> Result<Vec<u8>, SendError> {
        let slash = if target.starts_with('/') { "" } else { "/" };
        check(target, target, |byte| byte > b' ' && byte != 0x7f)?;
        let mut bytes = Vec::with_capacity(256 + target.len() + self.body.len());
        let mut line = |parts: &[&str]| {
            for part in parts {
                bytes.extend_from_slice(part.as_bytes());
            }
            bytes.extend_from_slice(b"\r\n");
        };
        line(&[self.method.as_str(), " ", slash, target, " HTTP/1.1"]);
        let has = |own| self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(own));
        if !has("host") {
            line(&["host: ", host]);
        }
        if let Some(value) = authorization.filter(|_| !has("authorization")) {
            check("this access token", value, is_in_value)?;
            line(&["authorization: ", value]);
        }
        for (name, value) in &self.headers {
            check(name, name, is_in_name)?;
            check(name, value, is_in_value)?;
            if FRAMING.iter().any(|of| name.eq_ignore_ascii_case(of)) {
                return Err(SendError::not_done(format!(
                    "leave out the header {name}: the client sets it"
                )));
            }
            line(&[name, ": ", value]);
        }
        if !self.body.is_empty()
            || [Method::POST, Method::PUT, Method::PATCH].contains(&self.method)
        {
            line(&["content-length: ", &self.body.len().to_string()]);
        }
        line(&[]);
        bytes.extend_from_slice(&self.body);
        Ok(bytes)
    }
}

fn is_in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_in_value(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// Checks a text, which may be a secret, so the error has only `what`.
///
/// # Errors
/// A byte of the text is not valid.
fn check(what: &str, text: &str, is_valid: impl Fn(u8) -> bool) -> Result<(), SendError> {
    let invalid = || SendError::not_done(format!("{what:?} has a byte that HTTP cannot send"));
    text.bytes().all(is_valid).then_some(()).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: Method, url: &str) -> HttpRequest {
        HttpRequest::new(method, url, Duration::from_secs(1))
    }

    fn bytes(request: &HttpRequest, authorization: Option<&str>) -> Result<String, SendError> {
        let (_, target) = request.split_url();
        let bytes = request.to_bytes("node:1", target, authorization)?;
        Ok(String::from_utf8(bytes).unwrap().replace("\r\n", "|"))
    }

    #[test]
    fn the_path_begins_with_a_slash_and_has_no_fragment() {
        for (url, base, target) in [
            ("http://node:1/v1/locks?x=/&y#here", "http://node:1", "/v1/locks?x=/&y"),
            ("http://node:1", "http://node:1", ""),
            ("https://[::1]:1?x", "https://[::1]:1", "?x"),
        ] {
            assert_eq!(request(Method::GET, url).split_url(), (base, target));
        }
        let text = bytes(&request(Method::GET, "http://node:1?x"), None).unwrap();
        assert_eq!(text, "GET /?x HTTP/1.1|host: node:1||");
    }

    #[test]
    fn a_body_has_a_length_and_a_change_has_one_without_a_body() {
        let post = HttpRequest { body: b"{}".to_vec(), ..request(Method::POST, "http://node:1/a") };
        assert_eq!(
            bytes(&post, None).unwrap(),
            "POST /a HTTP/1.1|host: node:1|content-length: 2||{}"
        );
        let put = request(Method::PUT, "http://node:1/a");
        assert_eq!(bytes(&put, None).unwrap(), "PUT /a HTTP/1.1|host: node:1|content-length: 0||");
    }

    #[test]
    fn the_credential_of_a_request_replaces_that_of_the_client() {
        let mut get = request(Method::GET, "http://node:1/a");
        let text = bytes(&get, Some("Bearer a")).unwrap();
        assert_eq!(text, "GET /a HTTP/1.1|host: node:1|authorization: Bearer a||");
        get.headers.push(("Authorization".to_owned(), "Bearer b".to_owned()));
        let text = bytes(&get, Some("Bearer a")).unwrap();
        assert_eq!(text, "GET /a HTTP/1.1|host: node:1|Authorization: Bearer b||");
    }

    #[test]
    fn a_host_of_the_caller_replaces_that_of_the_address() {
        let mut get = request(Method::GET, "http://node:1/a");
        get.headers.push(("Host".to_owned(), "store".to_owned()));
        assert_eq!(bytes(&get, None).unwrap(), "GET /a HTTP/1.1|Host: store||");
    }

    #[test]
    fn a_caller_cannot_say_where_the_request_ends() {
        for name in ["Content-Length", "transfer-encoding"] {
            let headers = vec![(name.to_owned(), "2".to_owned())];
            let put = HttpRequest { headers, ..request(Method::PUT, "http://node:1/a") };
            let error = bytes(&put, None).unwrap_err();
            assert!(!error.may_be_done && error.to_string().contains(name), "{error}");
        }
    }

    #[test]
    fn the_error_of_a_header_does_not_show_its_value() {
        let get = request(Method::GET, "http://node:1/a");
        let error = bytes(&get, Some("Bearer hf_secret\r")).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        let headers = vec![("x-api-key".to_owned(), "secret\r".to_owned())];
        let error = bytes(&HttpRequest { headers, ..get }, None).unwrap_err().to_string();
        assert!(error.contains("x-api-key") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn nothing_ends_a_line_early() {
        for url in ["http://node:1/a b", "http://node:1/a\r\nx: y", "http://node:1/\0"] {
            assert!(!bytes(&request(Method::GET, url), None).unwrap_err().may_be_done, "{url:?}");
        }
        for (name, value) in
            [("x y", "z"), ("x:", ""), ("x\r\ny", ""), ("x", "y\r\nz: 1"), ("x", "\n")]
        {
            let headers = vec![(name.to_owned(), value.to_owned())];
            let get = HttpRequest { headers, ..request(Method::GET, "http://node:1/a") };
            assert!(bytes(&get, None).is_err(), "{name:?}: {value:?}");
        }
        assert!(bytes(&request(Method::GET, "http://node:1/a"), Some("a\nb")).is_err());
    }
}
