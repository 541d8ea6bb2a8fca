//! What one command may see, change and reach.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::path_bytes;

/// Everything that the helper needs to confine one command. The command's environment and arguments are those of the
/// helper's process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
// What a helper does not know, it must not leave out.
#[serde(deny_unknown_fields)]
pub struct ConfinementPlan {
    /// By what the command is confined.
    pub wall: Wall,
    /// The command's working directory.
    #[serde(with = "path_bytes")]
    pub directory: PathBuf,
    /// The file system as commands see it, built in this order. Before the first step everything is there and read-only,
    /// `/dev`, `/proc`, `/run` and the temporary folders are the commands' own. Built once for all commands that share
    /// namespaces and have the same base.
    pub base: Vec<ViewStep>,
    /// What this command alone does not see or change of that: steps to protect, pin, hide and replace.
    pub view: Vec<ViewStep>,
    /// The folder that the command sees as `/tmp` and `/var/tmp`. It must exist. Belongs to the base.
    #[serde(with = "path_bytes")]
    pub temporary: PathBuf,
    /// What it may reach over the network.
    pub network: Network,
    /// What it reads on its standard input.
    pub input: Vec<u8>,
    /// Whether its standard output is a socket that is its standard input too, in place of `input`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub converses: bool,
    /// The most processes at the same time. The kernel does not hold root to it.
    pub max_processes: u64,
}

impl ConfinementPlan {
    /// All steps, in their order.
    pub(crate) fn steps(&self) -> impl DoubleEndedIterator<Item = &ViewStep> {
        self.base.iter().chain(&self.view)
    }
}

/// By what the operating system confines a command, besides a filter of system calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Wall {
    /// Namespaces, and Landlock where the machine has it.
    Namespaces,
    /// The same, made by bubblewrap, where this program may not make them. Each command has its own, and layers are
    /// read-only.
    Bubblewrap {
        /// The program `bwrap`, by its absolute path.
        #[serde(with = "path_bytes")]
        program: PathBuf,
    },
    /// Landlock alone. Then nothing can be mounted over a folder: what is covered or hidden cannot be read, except in a
    /// granted folder; what is protected in a granted folder can be written; layers are read-only; and variables that
    /// name a private place name its content instead.
    Landlock,
}

/// One step in building what a command sees. A later step covers the earlier ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum ViewStep {
    /// An empty, read-only folder in place of this one. Later steps may put things into it.
    Cover(#[serde(with = "path_bytes")] PathBuf),
    /// This file or folder, as it is, for reading.
    Show(#[serde(with = "path_bytes")] PathBuf),
    /// This file or folder, as it is, for writing too.
    Grant(#[serde(with = "path_bytes")] PathBuf),
    /// This folder, which the command may change; the changes go to `changes` and not to the folder itself.
    Layer {
        /// The folder.
        #[serde(with = "path_bytes")]
        folder: PathBuf,
        /// Holds the changes. It must exist, be private to the user, and be on a file system that can hold them.
        #[serde(with = "path_bytes")]
        changes: PathBuf,
    },
    /// The folder `content` in place of this one, for writing too.
    Private {
        /// The place.
        #[serde(with = "path_bytes")]
        place: PathBuf,
        /// What is seen there. It must exist.
        #[serde(with = "path_bytes")]
        content: PathBuf,
    },
    /// A symbolic link, in a covered or private folder, unless something of that name is there.
    Link {
        /// The link.
        #[serde(with = "path_bytes")]
        place: PathBuf,
        /// Where it leads.
        #[serde(with = "path_bytes")]
        target: PathBuf,
    },
    /// This file or folder, which is in a granted one, for reading only. It cannot be moved or deleted.
    Protect(#[serde(with = "path_bytes")] PathBuf),
    /// This folder, which is in a granted or private one and stays writable. It cannot be moved or deleted. In the base
    /// it is made if it is missing.
    Pin(#[serde(with = "path_bytes")] PathBuf),
    /// Nothing can be read of this file or folder: it is empty.
    Hide(#[serde(with = "path_bytes")] PathBuf),
    /// The same, but for what git compares with its index without reading it: in place of the file, or in the folder that
    /// is otherwise empty, there are files of the same kinds, sizes and times. They hold nothing and cannot be opened.
    Placeholders {
        /// The file or folder.
        #[serde(with = "path_bytes")]
        place: PathBuf,
        /// One for a file, without a name; any number for a folder.
        files: Vec<Placeholder>,
    },
    /// In place of this file, one with this content, for reading only.
    Text {
        /// The file.
        #[serde(with = "path_bytes")]
        place: PathBuf,
        /// What it contains.
        content: Vec<u8>,
    },
}

impl ViewStep {
    /// Where the step changes what is seen. The helper follows no link on the way there.
    pub fn place_mut(&mut self) -> &mut PathBuf {
        match self {
            Self::Cover(place)
            | Self::Show(place)
            | Self::Grant(place)
            | Self::Layer { folder: place, .. }
            | Self::Private { place, .. }
            | Self::Link { place, .. }
            | Self::Protect(place)
            | Self::Pin(place)
            | Self::Hide(place)
            | Self::Placeholders { place, .. }
            | Self::Text { place, .. } => place,
        }
    }
}

/// What git sees of one file that is hidden.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Placeholder {
    /// Where it is in the folder.
    #[serde(with = "path_bytes")]
    pub name: PathBuf,
    /// What it looks like.
    pub kind: PlaceholderKind,
    /// Its size.
    pub size: u32,
    /// When it was modified, in seconds since the epoch.
    pub modified: u32,
}

/// The kinds of what git tracks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PlaceholderKind {
    /// A file.
    File,
    /// A file that can be run.
    Program,
    /// A symbolic link.
    Link,
    /// The folder of a submodule.
    Folder,
}

/// What a command may reach over the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Network {
    /// A loopback interface of its own. With Landlock alone: nothing.
    Own,
    /// The same, and a port at which the parent listens, at every address of that loopback. The variables that name a
    /// proxy hold the address and the port. With Landlock alone: this port of the machine, where the parent listens already.
    Proxy {
        /// The address. It distinguishes commands that share a network.
        address: Ipv4Addr,
        /// The port.
        port: u16,
    },
    /// The network of the machine.
    Shared,
}
