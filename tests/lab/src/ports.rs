//! Free loopback ports, reserved for the lifetime of a cluster, also while its nodes are down.
//!
//! A reservation is a socket that is bound with `SO_REUSEADDR` and never listens. The kernel gives the port to no other
//! `bind(0)` and to no outgoing connection. A node also sets `SO_REUSEADDR`, so it can bind and listen on the port.
//! Connections are refused while the node is down.

use std::net::{Ipv4Addr, SocketAddr};

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
