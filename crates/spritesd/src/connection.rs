//! TCP connections that can be cut: by a handler, without an answer (what a lost reply looks like), or all at once
//! when the server stops.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tracing::warn;

use super::blackhole::Blackhole;

/// The connection a request came on.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    cut: CancellationToken,
    silent: Arc<AtomicBool>,
    /// Server and client.
    ends: Option<(SocketAddr, SocketAddr)>,
    blackhole: Arc<Blackhole>,
}

impl Connection {
    /// Ends it; nothing more is sent.
    pub(crate) fn cut(&self) {
        self.cut.cancel();
    }

    /// Keeps it open and lets nothing through any more, in either direction: the server is deaf and mute, and where a
    /// packet filter can be had, the network is too.
    pub(crate) fn silence(&self) {
        self.silent.store(true, Ordering::Relaxed);
        let Some((server, client)) = self.ends else { return };
        let blackhole = Arc::clone(&self.blackhole);
        tokio::spawn(async move {
            if let Err(error) = blackhole.part(server, client).await {
                warn!(%error, "a silent connection is still acknowledged by the kernel");
            }
        });
    }
}

/// Accepts [`Cuttable`] streams, all of which end with `stop`.
pub(crate) struct CuttableListener {
    pub(crate) listener: TcpListener,
    pub(crate) stop: CancellationToken,
    pub(crate) blackhole: Arc<Blackhole>,
}

impl Listener for CuttableListener {
    type Io = Cuttable;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Cuttable, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    // Frames are small and each is awaited.
                    drop(stream.set_nodelay(true));
                    let token = self.stop.child_token();
                    let cut = Box::pin(token.clone().cancelled_owned());
                    let ends = stream.local_addr().ok().map(|server| (server, address));
                    let blackhole = Arc::clone(&self.blackhole);
                    return (Cuttable { stream, token, cut, silent: Arc::default(), ends, blackhole }, address);
                }
                Err(error) => {
                    // Out of descriptors, most likely: give the others time to end.
                    warn!(%error, "cannot accept");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Connected<IncomingStream<'_, CuttableListener>> for Connection {
    fn connect_info(stream: IncomingStream<'_, CuttableListener>) -> Self {
        let io = stream.io();
        Self {
            cut: io.token.clone(),
            silent: Arc::clone(&io.silent),
            ends: io.ends,
            blackhole: Arc::clone(&io.blackhole),
        }
    }
}

/// A stream that fails once its connection is cut.
pub(crate) struct Cuttable {
    stream: TcpStream,
    token: CancellationToken,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    silent: Arc<AtomicBool>,
    ends: Option<(SocketAddr, SocketAddr)>,
    blackhole: Arc<Blackhole>,
}

impl Cuttable {
    /// What to answer in place of reading or writing: an error once it is cut, nothing while it is silent.
    fn instead(&mut self, cx: &mut Context<'_>) -> Option<Poll<io::Error>> {
        // Registers to be woken by the cut.
        if self.token.is_cancelled() || self.cut.as_mut().poll(cx).is_ready() {
            return Some(Poll::Ready(io::ErrorKind::ConnectionAborted.into()));
        }
        self.silent.load(Ordering::Relaxed).then_some(Poll::Pending)
    }
}

impl AsyncRead for Cuttable {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some(instead) = self.instead(cx) {
            return instead.map(Err);
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Cuttable {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(instead) = self.instead(cx) {
            return instead.map(Err);
        }
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Some(instead) = self.instead(cx) {
            return instead.map(Err);
        }
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(instead) = self.instead(cx) {
            return instead.map(Err);
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
