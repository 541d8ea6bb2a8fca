//! What one command may see, change and reach.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Everything that the helper needs to confine one command. The command's environment and arguments are those of the
/// helper's process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// By what the command is confined.
    pub wall: Wall,
    /// The command's working directory.
    pub directory: PathBuf,
    /// The file system as the command sees it, built in this order. Before the first step everything is there and
    /// read-only, `/dev`, `/proc`, `/run` and the temporary folders are the command's own.
    pub view: Vec<Step>,
    /// The folder that the command sees as `/tmp` and `/var/tmp`. It must exist.
    pub temporary: PathBuf,
    /// What it may reach over the network.
    pub network: Network,
    /// What it reads on its standard input.
    pub input: Vec<u8>,
    /// The most processes at the same time. The kernel does not hold root to it.
    pub max_processes: u64,
}

/// By what the operating system confines a command, besides a filter of system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Wall {
    /// Namespaces, and Landlock where the machine has it.
    Namespaces,
    /// Landlock alone. Then nothing lies over a folder: what is covered or hidden cannot be read, but in a folder that
    /// is granted; what is protected in a granted folder can be written; layers are read-only; and variables that name
    /// a private place name its content instead.
    Landlock,
}

/// One step in building what a command sees. A later step lies over the earlier ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Step {
    /// An empty, read-only folder in place of this one. Later steps may put things into it.
    Cover(PathBuf),
    /// This file or folder, as it is, for reading.
    Show(PathBuf),
    /// This file or folder, as it is, for writing too.
    Grant(PathBuf),
    /// This folder, which the command may change; the changes go to `changes` and not to the folder itself.
    Layer {
        /// The folder.
        folder: PathBuf,
        /// Holds the changes. It must exist, be private to the user, and lie on a file system that can hold them.
        changes: PathBuf,
    },
    /// The folder `content` in place of this one, for writing too.
    Private {
        /// The place.
        place: PathBuf,
        /// What is seen there. It must exist.
        content: PathBuf,
    },
    /// This file or folder, which lies in a granted one, for reading only. It cannot be moved or deleted.
    Protect(PathBuf),
    /// This folder, which lies in a granted one and stays writable. It cannot be moved or deleted.
    Pin(PathBuf),
    /// Nothing can be read of this file or folder: it is empty.
    Hide(PathBuf),
}

/// What a command may reach over the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Network {
    /// A loopback interface of its own. With Landlock alone: nothing.
    Own,
    /// The same, and a port there at which the parent listens, if the namespaces are new. The port is in the variables
    /// that name a proxy. With Landlock alone: this port of the machine, where the parent listens already.
    Proxy {
        /// The port.
        port: u16,
    },
    /// The network of the machine.
    Shared,
}
