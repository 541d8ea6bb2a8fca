//! Files of a project that programs on the user's machine obey later, unasked: editors, shells that enter the folder,
//! package managers, hooks, other agents. A change to one takes effect after the run has ended.

/// Names of files, in any folder.
const FILES: [&str; 43] = [
    ".autoenv",
    ".bazelrc",
    ".clinerules",
    ".cursorrules",
    ".devcontainer.json",
    ".dir-locals.el",
    ".envrc",
    ".exrc",
    ".gdbinit",
    ".goosehints",
    ".irbrc",
    ".lefthook.yaml",
    ".lefthook.yml",
    ".lldbinit",
    ".mcp.json",
    ".mise.toml",
    ".npmrc",
    ".nvim.lua",
    ".nvimrc",
    ".pdbrc",
    ".pnpmfile.cjs",
    ".pnpmfile.mjs",
    ".pre-commit-config.yaml",
    ".pryrc",
    ".rprofile",
    ".simple-git-hooks.json",
    ".tool-versions",
    ".vimrc",
    ".windsurfrules",
    ".yarnrc",
    ".yarnrc.yml",
    "agents.md",
    "agents.override.md",
    "claude.local.md",
    "claude.md",
    "copilot-instructions.md",
    "gemini.md",
    "lefthook.yaml",
    "lefthook.yml",
    "mise.toml",
    "opencode.json",
    "sitecustomize.py",
    "usercustomize.py",
];
/// Folders in which every file is one.
const FOLDERS: [&str; 16] = [
    ".claude",
    ".codex",
    ".continue",
    ".cursor",
    ".devcontainer",
    ".gemini",
    ".git",
    ".githooks",
    ".husky",
    ".idea",
    ".mise",
    ".opencode",
    ".rawko",
    ".vscode",
    ".windsurf",
    ".zed",
];
/// Files that are one in a certain folder only.
const IN_FOLDERS: [(&str, &[&str]); 2] = [(".cargo", &["config", "config.toml"]), (".bundle", &["config"])];
/// Ends of names.
const ENDS: [&str; 1] = [".code-workspace"];

/// Whether programs on the user's machine obey this file of a project later, unasked. It goes by the name alone: a file
/// that is on no list is not recognized.
#[must_use]
pub fn runs_later(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    let mut parts = path.rsplit('/');
    let name = parts.next().unwrap_or_default();
    let above = parts.next().unwrap_or_default();
    FILES.contains(&name)
        || ENDS.iter().any(|end| name.ends_with(end))
        || IN_FOLDERS.iter().any(|(folder, names)| above == *folder && names.contains(&name))
        || path.rsplit('/').skip(1).any(|folder| FOLDERS.contains(&folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_obey_is_known_by_name_and_folder() {
        let later = [
            ".envrc",
            "web/.npmrc",
            ".vscode/tasks.json",
            ".husky/_/pre-commit",
            ".cargo/config.toml",
            "docs/AGENTS.md",
            "CLAUDE.md",
            ".mcp.json",
            "all.code-workspace",
        ];
        let work = [
            "src/main.rs",
            "config.toml",
            "cargo/config.toml",
            "docs/agents.rs",
            "vscode/tasks.json",
            "npmrc",
            ".gitignore",
            ".github/workflows/ci.yml",
        ];
        assert_eq!(later.map(runs_later), [true; 9]);
        assert_eq!(work.map(runs_later), [false; 8]);
    }
}
