//! Free loopback ports for servers with configurable ports.
//!
//! The ports are free when `free` returns; if another process takes one first, the server fails to start.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use super::{ServerError, system_error};

/// Returns `N` different addresses.
pub(super) fn free<const N: usize>() -> Result<[SocketAddr; N], ServerError> {
    let mut found = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); N];
    // All listeners stay open until the last one, so that no port is returned twice.
    let mut open = Vec::with_capacity(N);
    for address in &mut found {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listener = listener.map_err(system_error("a free port"))?;
        *address = listener.local_addr().map_err(system_error("a free port"))?;
        open.push(listener);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_found_twice() {
        let mut ports = free::<50>().unwrap().to_vec();
        ports.sort();
        ports.dedup();
        assert_eq!(ports.len(), 50);
    }
}
