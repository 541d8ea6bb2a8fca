//! The server on standard input and output, for the client that started it.

use std::io;

use rmcp::service::ServerInitializeError;
use rmcp::transport::async_rw::AsyncRwTransport;

use crate::handler::Handler;
use crate::server::RawkoServer;

/// The longest message that is read. Longer ones are dropped.
const LONGEST_LINE: usize = 4 * 1024 * 1024;

/// Why the server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdioEnd {
    /// The client went away.
    ClientGone,
}

impl RawkoServer {
    /// Answers the client until it closes standard input. The runs go on until [`Self::end`].
    ///
    /// # Errors
    /// If the client does not speak the protocol.
    pub async fn serve_stdio(&self) -> io::Result<StdioEnd> {
        let transport = AsyncRwTransport::new_server(tokio::io::stdin(), tokio::io::stdout())
            .with_max_line_length(LONGEST_LINE);
        match rmcp::serve_server(Handler::new(self.clone()), transport).await {
            Ok(service) => {
                let _ = service.waiting().await;
                Ok(StdioEnd::ClientGone)
            }
            // It never said anything, or cannot be answered.
            Err(
                ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::TransportError { .. },
            ) => Ok(StdioEnd::ClientGone),
            Err(error) => Err(io::Error::other(error.to_string())),
        }
    }
}
