//! Free loopback ports, reserved for the lifetime of a cluster, also while its nodes are down.
//!
//! A reservation is a socket that is bound with `SO_REUSEADDR` and never listens. The kernel gives the port to no other
//! `bind(0)` and to no outgoing connection. A node also sets `SO_REUSEADDR`, so it can bind and listen on the port.
//! Connections are refused while the node is down.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Mutex;

use tokio::net::TcpSocket;

/// Reserved ports, freed on drop.
#[derive(Default)]
pub struct Ports {
    reserved: Vec<TcpSocket>,
}

impl Ports {
    /// Reserves one more loopback address.
    pub fn reserve(&mut self) -> SocketAddr {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_reuseaddr(true).expect("SO_REUSEADDR");
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a free port");
        let address = socket.local_addr().expect("a bound socket has an address");
        self.reserved.push(socket);
        address
    }
}

/// Returns the first port of a free range for a `holdfast dev` with up to five nodes. The range stays reserved until the
/// end of this process, because the process listens on its last port.
pub fn free_ports(nodes: u16) -> u16 {
    static OURS: Mutex<Vec<TcpListener>> = Mutex::new(Vec::new());
    let offset = u16::try_from(std::process::id() % 180).expect("below 180") * 50;
    let ranges = (0..180).map(|range| 20_000 + (offset + range * 50) % 9_000);
    let bind = |port: u16| TcpListener::bind(("127.0.0.1", port)).ok();
    let all_free = |first: u16| {
        (0..nodes).all(|node| (0..3).all(|port| bind(first + node * 10 + port).is_some()))
    };
    let free = ranges.into_iter().find_map(|first| {
        let last = bind(first + 49)?;
        all_free(first).then_some((first, last))
    });
    let (first, last) = free.expect("a free range of ports");
    OURS.lock().expect("no panic while it is held").push(last);
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_can_listen_on_a_reserved_port_repeatedly() {
        let mut ports = Ports::default();
        let address = ports.reserve();
        assert!(tokio::net::TcpStream::connect(address).await.is_err(), "no listener yet");
        for _ in 0..3 {
            let listener = tokio::net::TcpListener::bind(address).await.expect("bind");
            let (connected, accepted) =
                tokio::join!(tokio::net::TcpStream::connect(address), listener.accept());
            drop((connected.expect("connect"), accepted.expect("accept")));
        }
    }

    #[test]
    fn reserved_ports_are_distinct() {
        let mut ports = Ports::default();
        let mut seen: Vec<SocketAddr> = (0..500).map(|_| ports.reserve()).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 500);
    }
}
