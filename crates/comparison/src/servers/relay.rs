//! A relay between two loopback addresses: where clients find the server that has the role, and a cable to be cut.
//!
//! Owns the listening socket and its connections. Bounds: two buffers of the runtime's a connection. When it is turned to
//! another server or cut, connections that are open are closed, as they are when an address moves.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// A running relay; it ends when it is dropped.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    server: watch::Sender<Option<SocketAddr>>,
    task: AbortHandle,
}

impl Relay {
    /// To this server, on a free port.
    ///
    /// # Errors
    /// What the system says.
    pub async fn to(server: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (server, turned) = watch::channel(Some(server));
        let task = tokio::spawn(accept(listener, turned)).abort_handle();
        Ok(Self { address, server, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on to another server.
    pub fn turn(&self, server: SocketAddr) {
        self.server.send_replace(Some(server));
    }

    /// From now on nowhere.
    pub fn cut(&self) {
        self.server.send_replace(None);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // Its connections end with the sender.
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, turned: watch::Receiver<Option<SocketAddr>>) {
    while let Ok((socket, _)) = listener.accept().await {
        tokio::spawn(pass(socket, turned.clone()));
    }
}

/// Until either side closes, or the relay is turned.
async fn pass(mut client: TcpStream, mut turned: watch::Receiver<Option<SocketAddr>>) {
    let server = *turned.borrow_and_update();
    let Some(server) = server else { return };
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    // Without these every small packet waits for the one before it.
    drop((client.set_nodelay(true), server.set_nodelay(true)));
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        _ = turned.changed() => {}
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Answers every connection with its name and keeps it open.
    async fn server(name: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let mut open = Vec::new();
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                socket.write_all(name).await.unwrap();
                open.push(socket);
            }
        });
        address
    }

    async fn first_byte(socket: &mut TcpStream) -> Option<u8> {
        socket.read_u8().await.ok()
    }

    #[tokio::test]
    async fn a_turned_relay_closes_what_is_open_and_leads_to_the_other_server() {
        let relay = Relay::to(server(b"a").await).await.unwrap();
        let mut old = TcpStream::connect(relay.address()).await.unwrap();
        assert_eq!(first_byte(&mut old).await, Some(b'a'));
        relay.turn(server(b"b").await);
        assert_eq!(first_byte(&mut old).await, None);
        let mut new = TcpStream::connect(relay.address()).await.unwrap();
        assert_eq!(first_byte(&mut new).await, Some(b'b'));
        relay.cut();
        assert_eq!(first_byte(&mut new).await, None);
        let mut none = TcpStream::connect(relay.address()).await.unwrap();
        assert_eq!(first_byte(&mut none).await, None);
    }
}
