//! The head of a request: its id, whether two parsers can read it differently, and the web page that sent it.
//!
//! A proxy and this node must agree where a request ends and which host it is for. Otherwise an attacker can smuggle a
//! request past the proxy. A browser sends calls for every page that it shows, also to nodes that only its machine can reach,
//! and adds a client certificate by itself. `Sec-Fetch-Site` and `Origin` name the page. The page of a site whose name resolves
//! to the address of the node is of the same origin: only `Host` shows it. Where a call needs no credential, `Host` must name
//! the node.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::header::{HOST, ORIGIN, TRANSFER_ENCODING};
use axum::http::request::Parts;
use axum::http::uri::{Authority, Scheme, Uri};
use axum::http::{HeaderMap, HeaderName, Version};
use holdfast_api::{ErrorCode, Problem};
use holdfast_service::Service;

use crate::HttpConfig;
use crate::status::HttpError;

/// The longest id that a request may carry, bytes.
const LEN_MAX: usize = 64;

/// Assigns an id to each call: the client's own id if it is valid, else the next id of this process.
#[derive(Debug)]
pub(crate) struct RequestIds {
    prefix: String,
    next: AtomicU64,
}

impl RequestIds {
    /// Generates a random prefix, so that ids differ between runs of the process.
    pub(crate) fn new(node: u64) -> Self {
        // Without randomness the ids are still unique within this process, which is sufficient.
        let life = getrandom::u32().unwrap_or_default();
        Self { prefix: format!("{node}-{life:08x}-"), next: AtomicU64::new(1) }
    }

    /// Returns the id of one call.
    pub(crate) fn of(&self, headers: &HeaderMap) -> String {
        let given = headers.get(holdfast_api::HOLDFAST_REQUEST_ID);
        match given.and_then(|value| value.to_str().ok()).filter(|id| is_sane(id)) {
            Some(id) => id.to_owned(),
            None => format!("{}{}", self.prefix, self.next.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

/// Whether an id is short and has no character that could forge a log line.
fn is_sane(id: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.:/+=".contains(&b);
    (1..=LEN_MAX).contains(&id.len()) && id.bytes().all(plain)
}

/// Rejects an ambiguous head.
///
/// # Errors
/// `invalid-argument` for HTTP/1.1 without exactly one `Host`, and for a transfer coding other than chunked.
pub(crate) fn check(parts: &Parts) -> Result<(), HttpError> {
    let hosts = parts.headers.get_all(HOST).iter().count();
    if hosts > 1 || (hosts == 0 && parts.version == Version::HTTP_11) {
        let detail = "HTTP/1.1 requires the header Host, once";
        return Err(refused(detail, "send Host: NAME"));
    }
    let mut codings = parts.headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(one), None) if one.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") => Ok(()),
        (Some(_), _) => {
            let detail = "the header Transfer-Encoding names a coding other than chunked";
            Err(refused(
                detail,
                "send the body with Transfer-Encoding: chunked or with Content-Length",
            ))
        }
    }
}

/// The one value of a header as text, if it is there.
///
/// # Errors
/// `invalid-argument` if it is given twice or is not text.
pub(crate) fn only<'h>(
    headers: &'h HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'h str>, HttpError> {
    let mut values = headers.get_all(name).iter();
    let (first, second) = (values.next(), values.next());
    let hint = "give it once, as text";
    if second.is_some() {
        return Err(refused(format!("the header {name} is given twice"), hint));
    }
    let text = first.map(|value| value.to_str()).transpose();
    text.map_err(|_| refused(format!("the header {name} is not text"), hint))
}

fn refused(detail: impl Into<Cow<'static, str>>, hint: &'static str) -> HttpError {
    Box::new(Problem::new(ErrorCode::InvalidArgument, detail).hint(hint))
}

static SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Rejects a call of a web page of another site, and a call for another host.
///
/// # Errors
/// `foreign-site`; `invalid-argument` for a header that is given twice.
pub(crate) fn check_site(
    parts: &Parts,
    config: &HttpConfig,
    service: &Service,
) -> Result<(), HttpError> {
    if let Some(site) = only(&parts.headers, &SEC_FETCH_SITE)?
        && !["same-origin", "none"].contains(&site)
    {
        let hint = "open the address of the node itself, or call it from a program";
        return Err(foreign(
            format!("a web page of another site sent the call: Sec-Fetch-Site is {site:?}"),
            hint,
        ));
    }
    let host = only(&parts.headers, &HOST)?;
    let target = parts.uri.authority().map(Authority::as_str);
    if let Some(origin) = only(&parts.headers, &ORIGIN)?
        && !is_own_origin(origin, target.or(host), &config.hosts)
    {
        let hint = "open the address of the node itself, or call it from a program, without the header Origin";
        return Err(foreign(format!("a web page of {origin:?} sent the call"), hint));
    }
    for text in [host, target].into_iter().flatten() {
        if !is_name_of_node(text, config, service) && !service.requires_credential() {
            let hint = "call the node by localhost, its address or its name in the members; http.hosts in the \
                        configuration allows other names";
            return Err(foreign(
                format!("the call is for the host {text:?}, which is not this node"),
                hint,
            ));
        }
    }
    Ok(())
}

fn foreign(detail: String, hint: &'static str) -> HttpError {
    Box::new(Problem::new(ErrorCode::ForeignSite, detail).hint(hint))
}

/// The host of an authority, in lower case and without brackets, and its port.
fn host_and_port(text: &str) -> Option<(String, Option<u16>)> {
    let authority: Authority = text.parse().ok()?;
    if text.contains('@') {
        return None;
    }
    let host = authority.host().to_ascii_lowercase();
    let port = match authority.as_str().get(host.len()..)?.strip_prefix(':') {
        Some(port) => Some(port.parse().ok()?),
        None => None,
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&host);
    Some((host.strip_suffix('.').unwrap_or(host).to_owned(), port))
}

/// Whether a page of this origin is one of this node: the host that the call is for, or one of `hosts`.
fn is_own_origin(origin: &str, called: Option<&str>, hosts: &[String]) -> bool {
    let Ok(origin) = origin.parse::<Uri>() else { return false };
    let default = match origin.scheme() {
        Some(scheme) if *scheme == Scheme::HTTP => 80,
        Some(scheme) if *scheme == Scheme::HTTPS => 443,
        Some(_) | None => return false,
    };
    let Some((host, port)) = origin.authority().and_then(|own| host_and_port(own.as_str())) else {
        return false;
    };
    hosts.contains(&host)
        || called.and_then(host_and_port).is_some_and(|(own, own_port)| {
            own == host && own_port.unwrap_or(default) == port.unwrap_or(default)
        })
}

/// Whether this host is a name or an address of the node. No page of another site can have one of them.
fn is_name_of_node(text: &str, config: &HttpConfig, service: &Service) -> bool {
    let hosts = &config.hosts;
    if hosts.iter().any(|known| known == ANY_HOST) {
        return true;
    }
    let is_address_of_node =
        |address: IpAddr| address.to_canonical().is_loopback() || !config.listens_on_loopback;
    // Most calls name an address and a port.
    if text.parse::<SocketAddr>().is_ok_and(|called| is_address_of_node(called.ip())) {
        return true;
    }
    let Some((host, _)) = host_and_port(text) else { return false };
    let is_local = match host.parse::<IpAddr>() {
        Ok(address) => is_address_of_node(address),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    };
    is_local
        || hosts.contains(&host)
        || service
            .members()
            .values()
            .any(|member| member.http.host().trim_matches(['[', ']']).eq_ignore_ascii_case(&host))
}

/// The entry of [`crate::HttpConfig::hosts`] that allows every host.
const ANY_HOST: &str = "*";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valid_id_is_kept_and_an_invalid_one_is_replaced() {
        let ids = RequestIds::new(3);
        let of = |id: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(holdfast_api::HOLDFAST_REQUEST_ID, id.parse().unwrap());
            ids.of(&headers)
        };
        assert_eq!(of("trace:4bf9-2"), "trace:4bf9-2");
        for bad in ["", "a b", "a\"b", "{x}", &"a".repeat(65)] {
            assert!(of(bad).starts_with("3-"), "{bad}");
        }
        assert_ne!(ids.of(&HeaderMap::new()), ids.of(&HeaderMap::new()));
    }

    #[test]
    fn a_host_has_a_name_and_maybe_a_port() {
        let host = |text| host_and_port(text);
        assert_eq!(host("localhost"), Some(("localhost".to_owned(), None)));
        assert_eq!(host("LocalHost.:7400"), Some(("localhost".to_owned(), Some(7400))));
        assert_eq!(host("[::1]:7400"), Some(("::1".to_owned(), Some(7400))));
        for text in [
            "",
            ":7400",
            "a@localhost",
            "localhost:x",
            "localhost:70000",
            "local host",
            "a/b",
            "[::1",
        ] {
            assert!(host(text).is_none_or(|(host, _)| host.is_empty()), "{text}");
        }
    }

    #[test]
    fn an_origin_is_the_nodes_own_if_scheme_host_and_port_are() {
        let own = |origin, called| is_own_origin(origin, Some(called), &["lb.example".to_owned()]);
        for (origin, called) in [
            ("http://localhost:7400", "localhost:7400"),
            ("http://LOCALHOST:7400", "localhost:7400"),
            ("http://[::1]:7400", "[::1]:7400"),
            ("http://localhost", "localhost:80"),
            ("https://node1:443", "node1"),
            ("https://lb.example", "127.0.0.1:7400"),
        ] {
            assert!(own(origin, called), "{origin} {called}");
        }
        for (origin, called) in [
            ("null", "localhost:7400"),
            ("", "localhost:7400"),
            ("localhost:7400", "localhost:7400"),
            ("file://localhost:7400", "localhost:7400"),
            ("http://localhost:3000", "localhost:7400"),
            ("http://localhost", "localhost:7400"),
            ("http://127.0.0.1:7400", "localhost:7400"),
            ("http://evil.example", "localhost:7400"),
            ("http://localhost.evil.example:7400", "localhost:7400"),
            ("http://evil.example@localhost:7400", "localhost:7400"),
            ("http://lb.example.evil", "127.0.0.1:7400"),
        ] {
            assert!(!own(origin, called), "{origin} {called}");
        }
    }
}
