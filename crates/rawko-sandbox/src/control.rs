//! The parent's side: starts the helper, sends it the plan, and receives its reports.
//!
//! One socket connects the two. The parent sends the plan and then keeps its end open: when that closes, however the
//! parent died, the helper ends the command with everything it started. The helper sends reports, a line of JSON each,
//! and the socket at which the parent is to listen for the proxy.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::HELPER;
use crate::plan::{ConfinementPlan, ViewStep, Wall};

/// The signal that has the helper end everything at once. Where there are no namespaces, it must not be killed itself.
pub const END_NOW: Signal = Signal::QUIT;

/// The longest plan.
pub(crate) const MAX_PLAN: usize = 64 << 20;

/// Comes before a plan. A helper of another version could do less than the plan says, and refuses it.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The longest report.
const MAX_REPORT: usize = 1 << 20;

/// How long the helper may leave a plan unread. It does nothing before.
const TAKES_PLAN: Duration = Duration::from_secs(30);

/// What the helper says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HelperReport {
    /// The network and the base are there. New namespaces come with this report, and the listener for the proxy.
    Ready,
    /// The sandbox could not be made; the command did not start.
    Failed {
        /// What failed.
        what: String,
    },
    /// This program cannot be the helper, of no command.
    Unfit {
        /// Why, as what is said of it.
        why: String,
    },
    /// The command ended.
    Ended {
        /// Its exit code, if it exited.
        code: Option<i32>,
        /// The signal that ended it, if one did.
        signal: Option<i32>,
        /// How many processes that it left were ended.
        leftovers: usize,
    },
}

/// The parent's end of the socket. Dropping it ends the command.
#[derive(Debug)]
pub struct Control {
    socket: UnixStream,
    unread: Vec<u8>,
    received: Vec<OwnedFd>,
}

/// The namespaces that several commands share: then what one listens for on loopback, another can reach, and what they
/// all see is built once.
#[derive(Debug)]
pub struct SharedNamespaces {
    user: OwnedFd,
    net: OwnedFd,
    /// Holds what is seen of the file system. Each command changes a copy.
    mount: Option<OwnedFd>,
    base: Vec<ViewStep>,
    temporary: PathBuf,
}

impl SharedNamespaces {
    /// Whether a command of this plan sees the file system as it was built here.
    #[must_use]
    pub fn has_base_of(&self, plan: &ConfinementPlan) -> bool {
        self.mount.is_some() && self.base == plan.base && self.temporary == plan.temporary
    }

    /// Drops what is seen of the file system: what it mounts is not mounted twice, and what its layers hold is removed
    /// with them.
    pub fn forget_base(&mut self) {
        self.mount = None;
    }
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
    command.arg(HELPER).arg(program).args(arguments).stdin(Stdio::from(OwnedFd::from(theirs)));
    Ok((command, Control::new(ours)))
}

impl Control {
    pub(crate) fn new(socket: UnixStream) -> Self {
        Self { socket, unread: Vec::new(), received: Vec::new() }
    }

    /// Sends the plan. The command begins, in the namespaces of an earlier one if some are given. The helper `keeps` a
    /// descriptor open until all that the command started has ended.
    ///
    /// # Errors
    /// If the helper is gone, or does not read.
    pub fn send(
        &mut self,
        plan: &ConfinementPlan,
        shared: Option<&SharedNamespaces>,
        keeps: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        let mut descriptors = shared.map_or_else(Vec::new, |shared| {
            let mount = shared.mount.as_ref().filter(|_| shared.has_base_of(plan)).map(AsFd::as_fd);
            [shared.user.as_fd(), shared.net.as_fd()].into_iter().chain(mount).collect()
        });
        descriptors.extend(keeps);
        let mut sent = format!("{VERSION}\n").into_bytes();
        serde_json::to_writer(&mut sent, plan)?;
        let length = u32::try_from(sent.len()).ok().filter(|_| sent.len() <= MAX_PLAN);
        let length = length.ok_or_else(|| io::Error::other("the plan of the sandbox is too long"))?;
        let [a, b, c, d] = length.to_le_bytes();
        send_with(&self.socket, &[a, b, c, d, u8::from(keeps.is_some())], &descriptors)?;
        self.socket.set_write_timeout(Some(TAKES_PLAN))?;
        self.socket.write_all(&sent).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                io::Error::new(io::ErrorKind::TimedOut, "the sandbox's helper does not read its plan")
            }
            _ => error,
        })
    }

    /// The next report, however long it takes; `None` once the helper has ended.
    ///
    /// # Errors
    /// If the socket fails, or the helper says what no helper says.
    pub fn report(&mut self) -> io::Result<Option<HelperReport>> {
        self.next_report(None)
    }

    /// The same, if it comes before `deadline`.
    ///
    /// # Errors
    /// As [`Self::report`], and [`io::ErrorKind::TimedOut`].
    pub fn report_by(&mut self, deadline: Instant) -> io::Result<Option<HelperReport>> {
        self.next_report(Some(deadline))
    }

    fn next_report(&mut self, deadline: Option<Instant>) -> io::Result<Option<HelperReport>> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            if self.unread.len() > MAX_REPORT {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a report is too long"));
            }
            if let Some(deadline) = deadline {
                self.await_more(deadline)?;
            }
            if self.receive()? == 0 {
                return Ok(None);
            }
        }
    }

    /// Waits until there is something to receive, or the end.
    fn await_more(&self, deadline: Instant) -> io::Result<()> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
            match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&timeout)) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What came with [`HelperReport::Ready`], if the command of this plan did not find all in `known`: the namespaces for those
    /// that follow, and the socket at which the parent is to listen for their connections if it asked for one and the
    /// network is new.
    ///
    /// # Errors
    /// If no more descriptors can be had.
    pub fn take_shared(
        &mut self,
        plan: &ConfinementPlan,
        known: Option<&SharedNamespaces>,
    ) -> io::Result<Option<(SharedNamespaces, Option<TcpListener>)>> {
        if matches!(plan.wall, Wall::Bubblewrap { .. }) {
            return Ok(None);
        }
        let mut received = std::mem::take(&mut self.received).into_iter();
        let Some(mount) = received.next() else { return Ok(None) };
        let (user, net) = match (received.next().zip(received.next()), known) {
            (Some(new), _) => new,
            (None, Some(known)) => (known.user.try_clone()?, known.net.try_clone()?),
            (None, None) => return Ok(None),
        };
        let mount = Some(mount);
        let shared =
            SharedNamespaces { user, net, mount, base: plan.base.clone(), temporary: plan.temporary.clone() };
        Ok(Some((shared, received.next().map(TcpListener::from))))
    }

    /// The socket at which the parent is to listen, where nothing else came with [`HelperReport::Ready`]: bubblewrap hands no
    /// namespaces out.
    pub fn take_listener(&mut self) -> Option<TcpListener> {
        std::mem::take(&mut self.received).into_iter().next().map(TcpListener::from)
    }

    fn receive(&mut self) -> io::Result<usize> {
        let mut buffer = [0; 4096];
        let (length, descriptors) = receive_with(&self.socket, &mut buffer)?;
        self.received.extend(descriptors);
        self.unread.extend(buffer.get(..length).unwrap_or_default());
        Ok(length)
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The most descriptors in one message.
const MAX_DESCRIPTORS: usize = 4;

/// Sends bytes and descriptors in one message.
pub(crate) fn send_with(
    socket: &UnixStream,
    bytes: &[u8],
    descriptors: &[std::os::fd::BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many descriptors"));
    }
    let sent = sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Receives what is there, and the descriptors that came with it.
pub(crate) fn receive_with(socket: &UnixStream, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = message {
            descriptors.extend(some);
        }
    }
    Ok((received.bytes, descriptors))
}
