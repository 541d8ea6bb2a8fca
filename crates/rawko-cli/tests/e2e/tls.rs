//! TLS: a real handshake with a server whose certificate a private authority has signed.

use testkit::{ModelServer, TlsPort, Wire};

use crate::answers::{complete, report, select};
use crate::trial::{Ended, Trial};

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
        assert_eq!(ended.finish()["agentSummary"], "all done");
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
