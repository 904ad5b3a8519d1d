//! A stream with a write timeout.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// The maximum time until the peer accepts further bytes.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Fails a write that makes no progress within the timeout.
pub struct WriteTimeoutStream<S> {
    stream: S,
    /// Runs while a write is pending.
    timer: Option<Pin<Box<Sleep>>>,
    stall: Duration,
}

impl<S> WriteTimeoutStream<S> {
    pub fn new(stream: S) -> Self {
        WriteTimeoutStream::with_timeout(stream, STALL_TIMEOUT)
    }

    fn with_timeout(stream: S, stall: Duration) -> Self {
        WriteTimeoutStream { stream, timer: None, stall }
    }

    fn check_progress<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.timer = None;
            return written;
        }
        let stall = self.stall;
        let alarm = self.timer.get_or_insert_with(|| Box::pin(sleep(stall)));
        match alarm.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeoutStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.check_progress(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.check_progress(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.check_progress(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.check_progress(context, shut)
    }
}

#[cfg(test)]
mod tests {
    use super::WriteTimeoutStream;
    use std::time::Duration;
    use tokio::io::AsyncWriteExt;

    #[test]
    fn a_peer_that_takes_nothing_is_given_up() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a run-time");
        runtime.block_on(async {
            let (here, _there) = tokio::io::duplex(16);
            let mut stream = WriteTimeoutStream::with_timeout(here, Duration::from_millis(20));
            let error = stream.write_all(&[0; 64]).await.expect_err("it gives up");
            assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        });
    }
}
