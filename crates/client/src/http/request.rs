//! One request, and its bytes on a connection.

use std::time::Duration;

use http::Method;

use crate::http::SendError;

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
}

impl HttpRequest {
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
        check(target, |byte| byte > b' ' && byte != 0x7f)?;
        let mut bytes = Vec::with_capacity(256 + target.len() + self.body.len());
        let mut line = |parts: &[&str]| {
            for part in parts {
                bytes.extend_from_slice(part.as_bytes());
            }
            bytes.extend_from_slice(b"\r\n");
        };
        line(&[self.method.as_str(), " ", slash, target, " HTTP/1.1"]);
        line(&["host: ", host]);
        let is_own = |(name, _): &(String, String)| name.eq_ignore_ascii_case("authorization");
        if let Some(value) = authorization.filter(|_| !self.headers.iter().any(is_own)) {
            check(value, is_in_value)?;
            line(&["authorization: ", value]);
        }
        for (name, value) in &self.headers {
            check(name, is_in_name)?;
            check(value, is_in_value)?;
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

/// # Errors
/// A byte of the text is not valid.
fn check(text: &str, is_valid: impl Fn(u8) -> bool) -> Result<(), SendError> {
    let invalid = || SendError::not_done(format!("{text:?} cannot be sent by HTTP"));
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
