//! The options of every command.

use std::path::PathBuf;

use clap::Args;

use crate::console::ColorChoice;

/// Options of every command.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct GlobalArgs {
    /// Work in this folder instead of the current one
    #[arg(long, short = 'C', global = true, value_name = "DIR", help_heading = "Global options")]
    pub(crate) cwd: Option<PathBuf>,
    /// Read this file instead of .rawko/config.yaml [env: RAWKO_CONFIG]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub(crate) config: Option<PathBuf>,
    /// Use colors: auto, always or never [env: RAWKO_COLOR, NO_COLOR, CLICOLOR_FORCE]
    #[arg(long, global = true, value_name = "WHEN", value_enum, help_heading = "Global options")]
    #[arg(hide_possible_values = true)]
    pub(crate) color: Option<ColorChoice>,
    /// Plain lines on a terminal too: no view and no movement of the cursor, for screen readers [env: RAWKO_PLAIN,
    /// ACCESSIBLE]
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) plain: bool,
}
