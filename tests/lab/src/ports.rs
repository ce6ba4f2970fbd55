//! Free loopback ports that stay ours for as long as the cluster lives, also while its nodes are down.
//!
//! A port is a socket that is bound with `SO_REUSEADDR` and never listens. The kernel hands it to nobody else
//! (neither to another `bind(0)` nor to an outgoing connection), yet lets a node, which sets `SO_REUSEADDR` as well,
//! bind and listen on it. Connecting while the node is down is refused, as it should be.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

/// Reserved ports, given back on drop.
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

    /// The trick the whole harness stands on.
    #[tokio::test]
    async fn a_reserved_port_can_be_listened_on_again_and_again() {
        let mut ports = Ports::default();
        let address = ports.reserve();
        assert!(tokio::net::TcpStream::connect(address).await.is_err(), "nobody listens yet");
        for _ in 0..3 {
            let listener = tokio::net::TcpListener::bind(address).await.expect("bind");
            let (connected, accepted) =
                tokio::join!(tokio::net::TcpStream::connect(address), listener.accept());
            drop((connected.expect("connect"), accepted.expect("accept")));
        }
    }

    #[test]
    fn no_port_is_given_twice() {
        let mut ports = Ports::default();
        let mut seen: Vec<SocketAddr> = (0..500).map(|_| ports.reserve()).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 500);
    }
}
