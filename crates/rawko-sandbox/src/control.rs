//! The parent's side: how the helper is started, given its plan, and asked how it went.
//!
//! One socket connects the two. The parent sends the plan and then keeps its end open: when that closes, however the
//! parent died, the helper ends the command with everything it started. The helper sends reports, a line of JSON each,
//! and the socket at which the parent is to listen for the proxy.

use std::ffi::OsString;
use std::io::{self, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use serde::{Deserialize, Serialize};

use crate::HELPER;
use crate::plan::Plan;

/// The longest plan.
pub(crate) const MAX_PLAN: usize = 64 << 20;

/// What the helper says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Report {
    /// The command is about to start. The listener for the proxy comes with this report.
    Ready,
    /// The sandbox could not be made; the command did not start.
    Failed {
        /// What failed.
        what: String,
    },
    /// The command ended.
    Ended {
        /// How many processes that it left were ended.
        leftovers: usize,
    },
}

/// The parent's end of the socket. Dropping it ends the command.
#[derive(Debug)]
pub struct Control {
    socket: UnixStream,
    unread: Vec<u8>,
    listener: Option<TcpListener>,
}

/// A command that runs `program` with `arguments` as `plan` says, by the helper at `helper`. The caller sets the
/// environment and the outputs and starts it; then it must call [`Control::send`]. The exit status is that of the
/// program.
///
/// # Errors
/// If no socket can be made.
pub fn command(helper: &Path, program: &Path, arguments: &[OsString]) -> io::Result<(Command, Control)> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(helper);
    command.arg(HELPER).arg(program).args(arguments).stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)));
    Ok((command, Control { socket: ours, unread: Vec::new(), listener: None }))
}

impl Control {
    /// Sends the plan. The command begins.
    ///
    /// # Errors
    /// If the helper is gone.
    pub fn send(&mut self, plan: &Plan) -> io::Result<()> {
        let plan = serde_json::to_vec(plan)?;
        let length = u32::try_from(plan.len()).ok().filter(|_| plan.len() <= MAX_PLAN);
        let length = length.ok_or_else(|| io::Error::other("the plan of the sandbox is too long"))?;
        self.socket.write_all(&length.to_le_bytes())?;
        self.socket.write_all(&plan)
    }

    /// The next report; `None` once the helper has ended.
    ///
    /// # Errors
    /// If the socket fails, or the helper says what no helper says.
    pub fn next(&mut self) -> io::Result<Option<Report>> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            if self.receive()? == 0 {
                return Ok(None);
            }
        }
    }

    /// The socket at which the parent is to listen for the command's connections; after [`Report::Ready`].
    pub fn take_listener(&mut self) -> Option<TcpListener> {
        self.listener.take()
    }

    fn receive(&mut self) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut buffer = [0; 4096];
        let received = recvmsg(
            &self.socket,
            &mut [IoSliceMut::new(&mut buffer)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.listener = descriptors.map(TcpListener::from).next();
            }
        }
        self.unread.extend(buffer.get(..received.bytes).unwrap_or_default());
        Ok(received.bytes)
    }
}
