//! The `stagecut` command.
fn main() {}
