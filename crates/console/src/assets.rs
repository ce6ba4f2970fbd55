//! The stylesheet, the script, and the headers of every response.

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use sha2::{Digest as _, Sha256};

use crate::text::hexadecimal;

/// A page loads only the files of the console, and no other page contains it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// A file of the console.
#[derive(Debug)]
pub(crate) struct Asset {
    name: &'static str,
    media: &'static str,
    text: &'static str,
}

static ASSETS: [Asset; 2] = [
    Asset {
        name: "console.css",
        media: "text/css; charset=utf-8",
        text: include_str!("../assets/console.css"),
    },
    Asset {
        name: "console.js",
        media: "text/javascript; charset=utf-8",
        text: include_str!("../assets/console.js"),
    },
];

pub(crate) fn find(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}

pub(crate) fn reply(asset: &Asset, asked: &HeaderMap) -> Response<Body> {
    let tag = tag(asset.text);
    let is_known = asked.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let body = if is_known { Body::empty() } else { Body::from(asset.text) };
    let mut response = Response::new(body);
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(asset.media));
    // A new version of the node has new files under the same names.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::try_from(tag) {
        headers.insert(ETAG, tag);
    }
    protect(headers);
    response
}

fn tag(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    format!("\"{}\"", hexadecimal(&digest[..12]))
}

/// Adds the headers that keep other sites away from a page.
pub(crate) fn protect(headers: &mut HeaderMap) {
    let fixed = |name: &'static str| HeaderName::from_static(name);
    let pairs = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        // With `no-referrer`, browsers would send the forms of the console with `Origin: null`.
        (REFERRER_POLICY, "same-origin"),
        (fixed("cross-origin-opener-policy"), "same-origin"),
        (fixed("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in pairs {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_that_has_a_file_receives_only_its_tag() {
        let script = find("console.js").unwrap();
        let first = reply(script, &HeaderMap::new());
        let tag = first.headers()[ETAG].clone();
        let mut asked = HeaderMap::new();
        asked.insert(IF_NONE_MATCH, tag);
        assert_eq!(reply(script, &asked).status(), StatusCode::NOT_MODIFIED);
        asked.insert(IF_NONE_MATCH, HeaderValue::from_static("\"other\""));
        assert_eq!(reply(script, &asked).status(), StatusCode::OK);
    }

    #[test]
    fn the_script_never_writes_markup() {
        let script = find("console.js").unwrap().text;
        for word in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!script.contains(word), "{word}");
        }
        assert!(script.lines().count() < 400, "the script stays small");
    }
}
