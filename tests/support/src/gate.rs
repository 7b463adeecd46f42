//! Stands between the operator and the API server, and shuts: a server that is away for one client alone.

use std::net::SocketAddr;

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// The gate; it ends with the test's runtime.
pub struct Gate {
    pub address: SocketAddr,
    open: watch::Sender<bool>,
}

impl Gate {
    /// In front of a server; open.
    pub async fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let open = watch::Sender::new(true);
        let state = open.clone();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut open = state.subscribe();
                tokio::spawn(async move {
                    if *open.borrow() {
                        let mut server = TcpStream::connect(upstream).await.ok()?;
                        tokio::select! {
                            _ = copy_bidirectional(&mut client, &mut server) => {}
                            _ = open.wait_for(|open| !open) => {}
                        }
                    }
                    Some(())
                });
            }
        });
        Self { address, open }
    }

    /// Ends every connection, and each new one at once.
    pub fn shut(&self) {
        self.open.send_replace(false);
    }

    pub fn open(&self) {
        self.open.send_replace(true);
    }
}
