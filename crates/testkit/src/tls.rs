//! A port that speaks TLS, with certificates of a private authority, before a server that does not.

#![allow(clippy::unwrap_used)]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, Certificate, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

/// A port that speaks TLS and passes everything on to the server `upstream`. Its threads end with the test's process.
#[derive(Debug)]
pub struct TlsPort {
    address: SocketAddr,
    /// The authority's certificate as PEM.
    pub authority: String,
    /// Certificate and key of a client that it takes, as PEM.
    pub client: (String, String),
}

impl TlsPort {
    /// For a server that calls itself `name`, and takes every client.
    ///
    /// # Panics
    /// If there is no port, or no certificate can be made.
    #[must_use]
    pub fn before(upstream: SocketAddr, name: &str) -> Self {
        Self::new(upstream, name, false)
    }

    /// The same for HTTP/2, and for clients with a certificate of the authority alone.
    ///
    /// # Panics
    /// As [`TlsPort::before`].
    #[must_use]
    pub fn for_known_clients(upstream: SocketAddr, name: &str) -> Self {
        Self::new(upstream, name, true)
    }

    /// Its address, with the name that is always this machine's.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }

    fn new(upstream: SocketAddr, name: &str, knows_clients: bool) -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let signed = |name: &str| -> (Certificate, KeyPair) {
            let key = KeyPair::generate().unwrap();
            (CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap(), key)
        };
        let ((own, own_key), (client, client_key)) = (signed(name), signed("client"));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let config = if knows_clients {
            let mut roots = RootCertStore::empty();
            roots.add(authority.der().clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            config.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            config.with_no_client_auth()
        };
        let own_key = PrivateKeyDer::Pkcs8(own_key.serialize_der().into());
        let mut config = config.with_single_cert(vec![own.der().clone()], own_key).unwrap();
        if knows_clients {
            config.alpn_protocols = vec![b"h2".to_vec()];
        }
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let config = Arc::clone(&config);
                std::thread::spawn(move || pass_on(stream, upstream, config));
            }
        });
        Self { address, authority: authority.pem(), client: (client.pem(), client_key.serialize_pem()) }
    }
}

/// Passes bytes on both ways until one side ends.
fn pass_on(stream: TcpStream, upstream: SocketAddr, config: Arc<ServerConfig>) {
    let mut upstream = TcpStream::connect(upstream).unwrap();
    for socket in [&stream, &upstream] {
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    }
    let mut front = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
    while copy(&mut front, &mut upstream) && copy(&mut upstream, &mut front) {}
}

/// Passes on what has arrived; returns `false` at the end.
fn copy(from: &mut impl Read, to: &mut impl Write) -> bool {
    let mut bytes = [0; 16 * 1024];
    match from.read(&mut bytes) {
        Ok(0) => false,
        Ok(count) => to.write_all(&bytes[..count]).and_then(|()| to.flush()).is_ok(),
        Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}
