//! The names in a ClientHello that tell the protocol behind it.

use rustls::server::Acceptor;

/// The names in a ClientHello by which protocols on one port are told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelloNames {
    /// The name of the server; empty if there is none.
    pub server: String,
    /// The application protocols that the client offers (ALPN).
    pub protocols: Vec<Vec<u8>>,
}

/// Reads the names in a whole ClientHello; `None` if it is none.
pub fn read_hello_names(record: &[u8]) -> Option<HelloNames> {
    let mut acceptor = Acceptor::default();
    let mut rest = record;
    while !rest.is_empty() {
        acceptor.read_tls(&mut rest).ok().filter(|count| *count > 0)?;
    }
    let accepted = acceptor.accept().ok().flatten()?;
    let hello = accepted.client_hello();
    Some(HelloNames {
        server: hello.server_name().unwrap_or_default().to_owned(),
        protocols: hello.alpn().into_iter().flatten().map(<[u8]>::to_vec).collect(),
    })
}
