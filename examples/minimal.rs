//! Minimal integration (SPEC-0001): one task, carried to its end.
//!
//! ```text
//! ANTHROPIC_API_KEY=… cargo run --example minimal -- "Implement user authentication"
//! ```

use rawko::{Rawko, Status};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), rawko::Error> {
    let task = std::env::args().nth(1).unwrap_or_else(|| "Implement user authentication".to_owned());
    let rawko = Rawko::builder().project(".").build()?;
    let outcome = rawko.run(&task)?.await?;
    println!("{}: {}", outcome.status.as_str(), outcome.summary);
    std::process::exit(i32::from(outcome.status != Status::Claimed));
}
