//! The body of a bulk transfer: random data without end.

use crate::metered_socket::SocketMeter;
use hyper::body::{Body, Bytes, Frame};
use longhaul_model::splitmix::SplitMix64;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};

/// The size of the largest frame.
const LARGEST_FRAME_BYTES: usize = 1 << 14;

static PAYLOAD: LazyLock<Bytes> = LazyLock::new(|| {
    let mut random = SplitMix64::new(1);
    let words = (0..LARGEST_FRAME_BYTES / 8).map(|_| random.next_u64().to_le_bytes());
    words.flatten().collect::<Vec<u8>>().into()
});

/// Random data without end, in frames that take about a millisecond each: a short answer waits for
/// the frame before it.
#[derive(Debug)]
pub struct LoadBody {
    meter: Arc<SocketMeter>,
}

impl LoadBody {
    /// Creates the body of a transfer on the connection with this meter.
    pub fn new(meter: Arc<SocketMeter>) -> LoadBody {
        LoadBody { meter }
    }
}

impl Body for LoadBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = self.meter.frame_bytes().min(LARGEST_FRAME_BYTES);
        Poll::Ready(Some(Ok(Frame::data(PAYLOAD.slice(..bytes)))))
    }
}
