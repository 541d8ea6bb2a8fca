//! A repository that wants its own code run when rawko looks at it. Each trap is shown to work on plain git first.
