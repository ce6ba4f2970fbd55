//! `host:port`, where the host is an IP address or a DNS name.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// An address of a node. Every connection resolves DNS names anew, so a node can start before the names of its peers exist.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address {
    host: String,
    port: u16,
}

impl Address {
    /// The maximum length as text, bytes: a DNS name, a colon and a port.
    pub const MAX_LEN: usize = 253 + 6;

    /// # Errors
    /// The problem, and what to write instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        let example = "write host:port, for example \"127.0.0.1:7400\" or \"[::1]:7400\"";
        let Some((host, port)) = text.rsplit_once(':') else {
            return Err(format!("{text:?} has no port: {example}"));
        };
        let port = match port.parse::<u16>() {
            Ok(port) if port > 0 => port,
            Ok(_) | Err(_) => {
                return Err(format!(
                    "{text:?} has no port from 1 to 65535 after the colon: {example}"
                ));
            }
        };
        if !is_host(host) {
            return Err(format!("{text:?} has no usable host before the colon: {example}"));
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

impl Address {
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The host, without the brackets of an IPv6 address.
    pub fn host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Whether only this machine can reach it. Another host name than `localhost` may be any machine.
    pub fn is_loopback(&self) -> bool {
        let host = self.host();
        host == "localhost"
            || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
    }
}

fn is_host(host: &str) -> bool {
    if let Some(inner) = host.strip_prefix('[') {
        return inner.strip_suffix(']').is_some_and(|ip| ip.parse::<std::net::Ipv6Addr>().is_ok());
    }
    let looks_numeric = host.chars().all(|c| c.is_ascii_digit() || c == '.');
    if looks_numeric {
        return host.parse::<std::net::Ipv4Addr>().is_ok();
    }
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    };
    host.len() <= 253 && host.trim_end_matches('.').split('.').all(is_label)
}

impl TryFrom<String> for Address {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.to_string()
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        let host = match address {
            SocketAddr::V4(v4) => v4.ip().to_string(),
            SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
        };
        Self { host, port: address.port() }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for good in ["127.0.0.1:7400", "[::1]:7400", "node-1.lan:1", "holdfast_1:65535"] {
            assert_eq!(Address::parse(good).unwrap().to_string(), good);
        }
    }

    #[test]
    fn a_malformed_address_is_rejected_with_an_example() {
        for bad in [
            "",
            "7400",
            "localhost",
            ":7400",
            "a:0",
            "a:65536",
            "a:http",
            "256.0.0.1:1",
            "a b:1",
            "[::1:1",
        ] {
            let problem = Address::parse(bad).unwrap_err();
            assert!(problem.contains("127.0.0.1:7400"), "{bad}: {problem}");
        }
    }
}
