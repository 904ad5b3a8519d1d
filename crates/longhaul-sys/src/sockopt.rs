//! Socket options that affect throughput: [`SockRef`], and one function per option that it lacks.
//!
//! Sizes are bytes as in the kernel's interface: Linux stores twice the requested buffer size and
//! reports the stored value (socket(7)). Rates are bit/s here and bytes/s in the kernel.

use crate::syscall::check_status;
use longhaul_model::units::Rate;
pub use socket2::SockRef;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Plain data that the kernel can write: any bits are a valid value.
pub(crate) trait OptionValue: Default {}
impl OptionValue for i32 {}
impl OptionValue for u64 {}

/// Sets an option that is an integer, or a structure in the kernel's layout.
pub(crate) fn set_option<T: Copy>(
    socket: impl AsFd,
    level: i32,
    name: i32,
    value: T,
) -> io::Result<()> {
    let (fd, length) = (socket.as_fd().as_raw_fd(), size_of::<T>() as libc::socklen_t);
    // SAFETY: `value` lives for the call, which only reads it, and its size is passed with it.
    check_status(unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), length) })
}

pub(crate) fn get_option<T: OptionValue>(
    socket: impl AsFd,
    level: i32,
    name: i32,
) -> io::Result<T> {
    let mut value = T::default();
    let mut length = size_of::<T>() as u32;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `value` and `length` live for the call; any bits make a valid value.
    let answer =
        unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut length) };
    check_status(answer)?;
    Ok(value)
}

/// Limits the window that this end advertises (TCP_WINDOW_CLAMP).
pub fn set_window_clamp(socket: impl AsFd, bytes: usize) -> io::Result<()> {
    let clamp = i32::try_from(bytes).unwrap_or(i32::MAX);
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, clamp)
}

/// Returns the name of the current congestion control.
pub fn congestion_control(socket: &impl AsFd) -> io::Result<String> {
    let name = SockRef::from(socket).tcp_congestion()?;
    Ok(String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned())
}

/// Limits the socket's sending rate to `ceiling` (SO_MAX_PACING_RATE).
pub fn set_pacing_ceiling(socket: impl AsFd, ceiling: Rate) -> io::Result<()> {
    let bytes_per_second = ceiling.as_bps() / 8;
    set_option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, bytes_per_second)
}

/// Returns the socket's pacing limit; `None` if there is none.
pub fn pacing_ceiling(socket: impl AsFd) -> io::Result<Option<Rate>> {
    let bytes_per_second: u64 = get_option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE)?;
    let unlimited =
        matches!(bytes_per_second, 0 | u64::MAX) || bytes_per_second == u64::from(u32::MAX);
    Ok((!unlimited).then(|| Rate::bits_per_second(bytes_per_second.saturating_mul(8))))
}

/// Sets the DSCP field of the packets to `peer`, which may be an IPv4-mapped address.
pub fn set_dscp(socket: &impl AsFd, dscp: u8, peer: SocketAddr) -> io::Result<()> {
    let class = u32::from(dscp) << 2;
    match peer.ip().to_canonical() {
        IpAddr::V4(_) => SockRef::from(socket).set_tos_v4(class),
        IpAddr::V6(_) => SockRef::from(socket).set_tclass_v6(class),
    }
}

/// Makes closing discard unsent data and reset the connection (SO_LINGER with zero).
pub fn set_abort_on_close(socket: &impl AsFd) -> io::Result<()> {
    SockRef::from(socket).set_linger(Some(Duration::ZERO))
}

/// Enables kernel receive timestamps (nanoseconds of the wall clock) for each datagram.
pub fn set_receive_timestamps(socket: impl AsFd) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1_i32)
}

/// Returns the kernel's path MTU of a connected socket (IP_MTU, IPV6_MTU).
pub fn path_mtu_bytes(socket: impl AsFd, peer: SocketAddr) -> io::Result<u32> {
    let mtu: i32 = match peer {
        SocketAddr::V4(_) => get_option(socket, libc::IPPROTO_IP, libc::IP_MTU)?,
        SocketAddr::V6(_) => get_option(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU)?,
    };
    Ok(mtu.unsigned_abs())
}

/// Returns the bytes in the send queue: unsent or unacknowledged (SIOCOUTQ).
pub fn send_queue_bytes(socket: impl AsFd) -> io::Result<u64> {
    read_queue_bytes(socket, libc::TIOCOUTQ)
}

/// Returns the bytes in the receive queue: not yet read by the application (SIOCINQ).
pub fn receive_queue_bytes(socket: impl AsFd) -> io::Result<u64> {
    read_queue_bytes(socket, libc::FIONREAD)
}

fn read_queue_bytes(socket: impl AsFd, request: libc::Ioctl) -> io::Result<u64> {
    let mut bytes: i32 = 0;
    // SAFETY: both requests write one int, which lives for the call.
    let answer = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), request, &raw mut bytes) };
    check_status(answer)?;
    Ok(u64::from(bytes.max(0).unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn linux_stores_twice_the_buffer_that_was_asked() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
        let socket = SockRef::from(&stream);
        socket.set_send_buffer_size(100_000).expect("send buffer");
        socket.set_recv_buffer_size(100_000).expect("receive buffer");
        assert_eq!(socket.send_buffer_size().expect("read back"), 200_000);
        assert_eq!(socket.recv_buffer_size().expect("read back"), 200_000);
    }

    #[test]
    fn a_mapped_peer_gets_its_class_of_service_in_ipv4() {
        let socket = std::net::UdpSocket::bind("[::]:0").expect("a port");
        set_dscp(&socket, 46, "[::ffff:192.0.2.1]:1".parse().expect("an address")).expect("set");
        assert_eq!(SockRef::from(&socket).tos_v4().expect("read back"), 46 << 2);
    }

    #[test]
    fn a_pacing_ceiling_reads_back_as_it_was_set() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        assert_eq!(pacing_ceiling(&listener).expect("none yet"), None);
        let ceiling = Rate::bits_per_second(100_000_000_000);
        set_pacing_ceiling(&listener, ceiling).expect("a ceiling");
        assert_eq!(pacing_ceiling(&listener).expect("read back"), Some(ceiling));
    }

    #[test]
    fn bytes_that_nobody_reads_stand_in_the_receive_queue() {
        use std::io::Write;
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut near =
            TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
        let (far, _) = listener.accept().expect("accept");
        near.write_all(&[7; 1000]).expect("write");
        let mut byte = [0];
        far.peek(&mut byte).expect("something arrives");
        assert_eq!(receive_queue_bytes(&far).expect("queue"), 1000);
    }
}
