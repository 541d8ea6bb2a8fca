//! The server on standard input and output, for the client that started it.

mod line;

use std::io;

use rmcp::model::ErrorData;
use rmcp::service::{RoleServer, RxJsonRpcMessage, ServerInitializeError, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{Stdin, Stdout};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::handler::Handler;
use crate::server::RawkoServer;
use line::{BoundedLines, UnreadMessage, WhyUnread};

/// The longest message that is read.
const LONGEST_LINE: usize = 4 * 1024 * 1024;

/// Why the server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdioEnd {
    /// The client went away.
    ClientGone,
}

impl RawkoServer {
    /// Answers the client until it closes standard input, which [closes](Self::close) the server, and then what it still
    /// waits for. The runs go on until [`Self::end`].
    ///
    /// # Errors
    /// If the client does not speak the protocol.
    pub async fn serve_stdio(&self) -> io::Result<StdioEnd> {
        match rmcp::serve_server(Handler::new(self.clone()), StdioTransport::new(self.clone())).await {
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

/// Messages as lines. One that is too long, or no JSON, is answered with an error, so that no client waits for it.
struct StdioTransport {
    messages: AsyncRwTransport<RoleServer, BoundedLines<Stdin>, Stdout>,
    unread: UnboundedReceiver<UnreadMessage>,
    server: RawkoServer,
}

impl StdioTransport {
    fn new(server: RawkoServer) -> Self {
        let (lines, unread) = BoundedLines::new(tokio::io::stdin(), LONGEST_LINE);
        let messages =
            AsyncRwTransport::new_server(lines, tokio::io::stdout()).with_max_line_length(LONGEST_LINE);
        Self { messages, unread, server }
    }

    fn refuse(&mut self, message: UnreadMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let error = match message.why {
            WhyUnread::TooLong => {
                let words = format!(
                    "the message is longer than {} MiB, which is the limit, and was not read; put long material into a file \
                     of the project, and name the file",
                    LONGEST_LINE / 1024 / 1024
                );
                ErrorData::invalid_request(words, None)
            }
            WhyUnread::NotJson(why) => ErrorData::parse_error(
                format!("the message is no JSON: {why}; send one message in each line"),
                None,
            ),
        };
        self.messages.send(TxJsonRpcMessage::<RoleServer>::error(error, message.id))
    }
}

impl Transport<RoleServer> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.messages.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let message = tokio::select! {
                biased;
                Some(unread) = self.unread.recv() => {
                    // This future may be dropped at any time, and the answer must not be sent in part.
                    tokio::spawn(self.refuse(unread));
                    continue;
                }
                message = self.messages.receive() => message,
            };
            if message.is_none() {
                self.server.close();
                // The client may be gone, or only its input closed.
                while let Ok(unread) = self.unread.try_recv() {
                    let _ = self.refuse(unread).await;
                }
            }
            return message;
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.messages.close().await
    }
}
