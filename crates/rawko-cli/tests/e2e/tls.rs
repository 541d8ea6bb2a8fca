//! TLS: a real handshake with a server whose certificate a private authority has signed.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use testkit::{ModelServer, Wire};

use crate::answers::{complete, report, select};
use crate::trial::{Ended, Trial};

/// A port that speaks TLS and passes everything on to a server behind it. Its threads end with the test's process.
struct TlsPort {
    address: SocketAddr,
    /// The authority's certificate as PEM.
    authority: String,
}

impl TlsPort {
    /// For a server that calls itself `name`.
    fn before(behind: SocketAddr, name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        let own_key = KeyPair::generate().unwrap();
        let own =
            CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&own_key, &issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.der().clone()], PrivateKeyDer::Pkcs8(own_key.serialize_der().into()))
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let config = Arc::clone(&config);
                std::thread::spawn(move || pass_on(stream, behind, config));
            }
        });
        Self { address, authority }
    }

    fn url(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }
}

/// Passes bytes on both ways until one side ends.
fn pass_on(stream: TcpStream, behind: SocketAddr, config: Arc<ServerConfig>) {
    let mut behind = TcpStream::connect(behind).unwrap();
    for socket in [&stream, &behind] {
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    }
    let mut front = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
    while copy(&mut front, &mut behind) && copy(&mut behind, &mut front) {}
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

/// A run over TLS with a server that calls itself `name`, by a user who trusts its authority or not.
fn run(wire: Wire, name: &str, is_trusted: bool) -> Ended {
    let server = ModelServer::sequence([select("developer"), report("did it"), complete("all done")]);
    let port = TlsPort::before(server.address(), name);
    let variable = if wire == Wire::Claude { "ANTHROPIC_BASE_URL" } else { "OPENAI_BASE_URL" };
    let path = if wire == Wire::Claude { "" } else { "/v1" };
    let mut trial = Trial::new(server)
        .wire(wire)
        .env(variable, format!("{}{path}", port.url()))
        .env("RAWKO_MAX_CONSECUTIVE_FAILURES", "1")
        .user_config("/provider/retry/patience", 0.into());
    if is_trusted {
        let file = trial.outside().join("authority.pem");
        std::fs::write(&file, &port.authority).unwrap();
        trial = trial.env("SSL_CERT_FILE", file.to_str().unwrap());
    }
    trial.run("Do it.")
}

#[test]
fn a_private_authority_is_trusted_by_ssl_cert_file() {
    for wire in Wire::ALL {
        let ended = run(wire, "localhost", true);
        ended.exits(0);
        assert_eq!(ended.finish()["summary"], "all done");
        assert_eq!(ended.trial.server.asked().len(), 3, "{wire:?}");
    }
}

/// Checks that nothing was sent, and that the error has these words.
#[track_caller]
fn check_refused(ended: &Ended, words: &str) {
    ended.exits(4);
    let finish = ended.finish();
    assert_eq!(finish["error"]["code"], "network_error", "{finish}");
    let summary = finish["summary"].as_str().unwrap();
    assert!(summary.contains(words), "{words:?} is missing in {summary:?}");
    assert_eq!(ended.trial.server.asked().len(), 0, "the key is not sent to a stranger");
}

#[test]
fn a_stranger_is_sent_nothing() {
    check_refused(&run(Wire::Claude, "localhost", false), "invalid peer certificate");
    check_refused(&run(Wire::Responses, "example.com", true), "not valid for name");
}
