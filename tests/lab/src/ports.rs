//! Free loopback ports, reserved for the lifetime of a cluster, also while its nodes are down.
//!
//! A reservation is a socket that is bound with `SO_REUSEADDR` and never listens. The kernel gives the port to no other
//! `bind(0)` and to no outgoing connection. A node also sets `SO_REUSEADDR`, so it can bind and listen on the port.
//! Connections are refused while the node is down.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

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

const RANGE_LEN: u16 = 50;
const RANGES: u16 = 180;

/// A range of 50 free ports, for a cluster of up to five nodes. Until it is dropped no other test gets one of them,
/// because this process listens on the last one.
#[derive(Debug)]
pub struct PortRange {
    first: u16,
    _last: TcpListener,
}

impl PortRange {
    /// Reserves a range in which every port is free.
    pub fn reserve() -> Self {
        let own = u16::try_from(std::process::id() % u32::from(RANGES)).expect("below 180");
        let mut firsts = (0..RANGES).map(|turn| 20_000 + (own + turn) % RANGES * RANGE_LEN);
        let bind = |port: u16| TcpListener::bind(("127.0.0.1", port)).ok();
        let free = firsts.find_map(|first| {
            let last = bind(first + RANGE_LEN - 1)?;
            let rest_is_free = (first..first + RANGE_LEN - 1).all(|port| bind(port).is_some());
            rest_is_free.then_some(Self { first, _last: last })
        });
        free.expect("a free range of ports")
    }

    /// The first port of the range.
    pub fn first(&self) -> u16 {
        self.first
    }
}

#[cfg(test)]
mod tests {
    use std::iter::repeat_with;

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

    #[test]
    fn a_dropped_range_is_free_again() {
        let ranges: Vec<PortRange> = repeat_with(PortRange::reserve).take(3).collect();
        let mut firsts: Vec<u16> = ranges.iter().map(PortRange::first).collect();
        drop(ranges);
        firsts.dedup();
        assert_eq!(firsts.len(), 3, "ranges do not overlap");
        // More ranges than there are, one after the other.
        repeat_with(PortRange::reserve).take(usize::from(2 * RANGES)).for_each(drop);
    }
}
