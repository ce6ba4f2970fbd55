//! A relay between two loopback addresses: a stable address for the current leader, and a link that can be cut.
//!
//! Each connection has two buffers of the runtime. A redirect or a cut closes the open connections, like a moved
//! address.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// A running relay, which ends on drop.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    server: watch::Sender<Option<SocketAddr>>,
    task: AbortHandle,
}

impl Relay {
    /// Starts a relay to this server, on a free port.
    ///
    /// # Errors
    /// The system has no free port.
    pub async fn to(server: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (server, receiver) = watch::channel(Some(server));
        let task = tokio::spawn(accept(listener, receiver)).abort_handle();
        Ok(Self { address, server, task })
    }

    /// Returns the listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends new connections to another server.
    pub fn redirect(&self, server: SocketAddr) {
        self.server.send_replace(Some(server));
    }

    /// Closes new connections.
    pub fn cut(&self) {
        self.server.send_replace(None);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // The connections end with the sender.
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, server: watch::Receiver<Option<SocketAddr>>) {
    while let Ok((client, _)) = listener.accept().await {
        tokio::spawn(forward(client, server.clone()));
    }
}

/// Forwards until either side closes or the relay is redirected.
async fn forward(mut client: TcpStream, mut server: watch::Receiver<Option<SocketAddr>>) {
    let Some(address) = *server.borrow_and_update() else { return };
    let Ok(mut stream) = TcpStream::connect(address).await else { return };
    // Without `nodelay` every small packet waits for the previous one.
    drop((client.set_nodelay(true), stream.set_nodelay(true)));
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut stream) => {}
        _ = server.changed() => {}
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A server that replies to every connection with its name and keeps it open.
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
    async fn a_redirected_relay_closes_open_connections_and_leads_to_the_other_server() {
        let relay = Relay::to(server(b"a").await).await.unwrap();
        let mut old = TcpStream::connect(relay.address()).await.unwrap();
        assert_eq!(first_byte(&mut old).await, Some(b'a'));
        relay.redirect(server(b"b").await);
        assert_eq!(first_byte(&mut old).await, None);
        let mut new = TcpStream::connect(relay.address()).await.unwrap();
        assert_eq!(first_byte(&mut new).await, Some(b'b'));
        relay.cut();
        assert_eq!(first_byte(&mut new).await, None);
        let mut none = TcpStream::connect(relay.address()).await.unwrap();
        assert_eq!(first_byte(&mut none).await, None);
    }
}
