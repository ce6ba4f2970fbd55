//! Free loopback ports for servers with configurable ports.
//!
//! The ports are free when `free` returns; if another process takes one first, the server fails to start.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use super::{ServerError, system_error};

/// Returns `N` different addresses.
pub(super) fn free<const N: usize>() -> Result<[SocketAddr; N], ServerError> {
    let too_few = |_| system_error("free ports")(std::io::Error::other("too few"));
    free_list(N)?.try_into().map_err(too_few)
}

/// Returns so many different addresses.
pub(super) fn free_list(count: usize) -> Result<Vec<SocketAddr>, ServerError> {
    // All listeners stay open until the last one, so that no port is returned twice.
    let mut open = Vec::with_capacity(count);
    for _ in 0..count {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        open.push(listener.map_err(system_error("a free port"))?);
    }
    let addresses = open.iter().map(TcpListener::local_addr).collect::<Result<_, _>>();
    addresses.map_err(system_error("a free port"))
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
