//! How much memory a search may take.

use rustix::process::{Resource, getrlimit};

/// What a search takes at most, whatever there is.
const MOST_BYTES: u64 = 4 << 30;

/// Bytes for whatever grows while a search goes on: half of what the address space of the process leaves, since a solver runs
/// beside, and what grows is copied as it does.
pub(super) fn bytes() -> usize {
    let room = match getrlimit(Resource::As).current {
        Some(limit) => limit.saturating_sub(in_use()) / 2,
        None => MOST_BYTES,
    };
    room.min(MOST_BYTES) as usize
}

/// Address space in use; 0 where the system does not say.
fn in_use() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kib = size.and_then(|size| size.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}
