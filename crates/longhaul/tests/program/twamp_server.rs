//! A server of TWAMP-Control for sessions one after the other.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

/// Starts a server whose sessions are reflected on another port than it is asked for. Returns its TCP
/// port, and the messages that stop the sessions.
pub fn start_control(reflector_port: u16) -> (u16, Receiver<[u8; 32]>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let (stopped, stops) = channel();
    std::thread::spawn(move || {
        let connections = listener.incoming().map(|it| it.expect("a connection"));
        let mut served = connections.map(|stream| serve_session(stream, reflector_port));
        served.try_for_each(|stop| stopped.send(stop))
    });
    (port, stops)
}

/// Serves a session, and returns the message that stops it.
fn serve_session(mut stream: TcpStream, reflector_port: u16) -> [u8; 32] {
    let mut greeting = [0; 64];
    greeting[15] = 1;
    stream.write_all(&greeting).expect("sent");
    let mut setup = [0; 164];
    stream.read_exact(&mut setup).expect("Set-Up-Response");
    assert_eq!(setup[..4], [0, 0, 0, 1]);
    stream.write_all(&[0; 48]).expect("sent");
    let mut request = [0; 112];
    stream.read_exact(&mut request).expect("Request-TW-Session");
    assert_eq!(request[..2], [5, 4]);
    let mut accept = [0; 48];
    accept[2..4].copy_from_slice(&reflector_port.to_be_bytes());
    stream.write_all(&accept).expect("sent");
    let mut command = [0; 32];
    stream.read_exact(&mut command).expect("Start-Sessions");
    assert_eq!(command[0], 2);
    stream.write_all(&[0; 32]).expect("sent");
    stream.read_exact(&mut command).expect("Stop-Sessions");
    command
}
