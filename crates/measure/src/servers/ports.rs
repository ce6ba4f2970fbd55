//! Free loopback ports for servers with configurable ports, reserved until this process ends.
//!
//! A reservation is a socket that is bound with `SO_REUSEADDR` and never listens. The kernel gives the port to no other
//! `bind(0)` and to no outgoing connection. The servers set `SO_REUSEADDR` too, so they can listen on it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};

use tokio::net::TcpSocket;

use super::{ServerError, system_error};

static RESERVED: Mutex<Vec<TcpSocket>> = Mutex::new(Vec::new());

/// Returns `N` different addresses.
pub(super) fn free<const N: usize>() -> Result<[SocketAddr; N], ServerError> {
    let too_few = |_| system_error("free ports")(std::io::Error::other("too few"));
    free_list(N)?.try_into().map_err(too_few)
}

/// Returns so many different addresses.
pub(super) fn free_list(count: usize) -> Result<Vec<SocketAddr>, ServerError> {
    (0..count).map(|_| reserve().map_err(system_error("a free port"))).collect()
}

fn reserve() -> std::io::Result<SocketAddr> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let address = socket.local_addr()?;
    RESERVED.lock().unwrap_or_else(PoisonError::into_inner).push(socket);
    Ok(address)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn no_other_process_finds_a_port_before_its_server_listens() {
        let ports: BTreeSet<_> = free::<200>().unwrap().into_iter().collect();
        assert_eq!(ports.len(), 200);
        let bind = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let others: Vec<_> = (0..1_000).map(bind).collect();
        let taken = others.iter().map(|other| other.local_addr().unwrap());
        assert_eq!(taken.filter(|other| ports.contains(other)).count(), 0);
        // The server of a port listens on it.
        TcpListener::bind(ports.first().unwrap()).unwrap();
    }
}
