//! Runs one task to its end.
//!
//! ```text
//! ANTHROPIC_API_KEY=… cargo run --example minimal -- "Implement user authentication"
//! ```
//!
//! Exits with 0 if the task is done and with 1 if it is not.

use std::process::ExitCode;

use rawko::{Rawko, Status};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, rawko::Error> {
    rawko::tools::run_helper_if_asked();
    let task = std::env::args().nth(1).unwrap_or_else(|| "Implement user authentication".to_owned());
    let rawko = Rawko::builder().project(".").build()?;
    let outcome = rawko.run(&task)?.await?;
    println!("{}", outcome.summary);
    println!("{}", outcome.agent_summary.unwrap_or_default());
    Ok(match outcome.status {
        // Verified: the project's tests passed. Claimed: only the agents say that the task is done.
        Status::Verified | Status::Claimed => ExitCode::SUCCESS,
        Status::Failed | Status::Limited | Status::Cancelled => ExitCode::FAILURE,
    })
}
