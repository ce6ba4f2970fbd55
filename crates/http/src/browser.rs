//! Rejects calls that a web page of another site makes a browser send.
//!
//! A browser sends calls for every page that it shows, also to nodes that only its machine can reach, and adds a client
//! certificate by itself. `Sec-Fetch-Site` and `Origin` name the page. The page of a site whose name resolves to the address
//! of the node is of the same origin: only `Host` shows it. Where calls need no permission, `Host` must name the node.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{HOST, HeaderName, ORIGIN};
use axum::http::request::Parts;
use axum::http::uri::{Authority, Scheme, Uri};
use holdfast_api::{ErrorCode, Problem};

use crate::head;
use crate::state::HttpState;
use crate::status::HttpError;

static SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Rejects a call of a web page of another site, and a call for another host.
///
/// # Errors
/// `foreign-site`; `invalid-argument` for a header that is given twice.
pub(crate) fn check(parts: &Parts, state: &HttpState) -> Result<(), HttpError> {
    if let Some(site) = head::only(&parts.headers, &SEC_FETCH_SITE)?
        && !["same-origin", "none"].contains(&site)
    {
        let hint = "open the address of the node itself, or call it from a program";
        return Err(refused(
            format!("a web page of another site sent the call: Sec-Fetch-Site is {site:?}"),
            hint,
        ));
    }
    let host = head::only(&parts.headers, &HOST)?;
    let target = parts.uri.authority().map(Authority::as_str);
    if let Some(origin) = head::only(&parts.headers, &ORIGIN)?
        && !is_own_origin(origin, target.or(host), &state.config().hosts)
    {
        let hint = "open the address of the node itself, or call it from a program, without the header Origin";
        return Err(refused(format!("a web page of {origin:?} sent the call"), hint));
    }
    for text in [host, target].into_iter().flatten() {
        if !is_name_of_node(text, state) && !state.service().requires_permissions() {
            let hint = "call the node by localhost, its address or its name in the members; http.hosts in the \
                        configuration allows other names";
            return Err(refused(
                format!("the call is for the host {text:?}, which is not this node"),
                hint,
            ));
        }
    }
    Ok(())
}

fn refused(detail: String, hint: &'static str) -> HttpError {
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
fn is_name_of_node(text: &str, state: &HttpState) -> bool {
    let hosts = &state.config().hosts;
    if hosts.iter().any(|known| known == ANY_HOST) {
        return true;
    }
    let is_address_of_node = |address: IpAddr| {
        address.to_canonical().is_loopback() || !state.config().listens_on_loopback
    };
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
        || state
            .service()
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
