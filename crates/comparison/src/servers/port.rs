//! Free loopback ports for servers that are told where to listen.
//!
//! Owns picking several at once, so that none is picked twice. They are free when this answers; whoever takes one before
//! the server does makes the server fail at its start, and it says so.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use super::{ServerError, system_error};

/// As many different addresses as there are addresses.
pub(super) fn free<const N: usize>() -> Result<[SocketAddr; N], ServerError> {
    let mut found = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); N];
    let mut held = Vec::with_capacity(N);
    for place in &mut found {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listener = listener.map_err(system_error("a free port"))?;
        *place = listener.local_addr().map_err(system_error("a free port"))?;
        held.push(listener);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_given_twice() {
        let mut ports = free::<50>().unwrap().to_vec();
        ports.sort();
        ports.dedup();
        assert_eq!(ports.len(), 50);
    }
}
