//! How much memory a search may take.

use rustix::process::{Resource, getrlimit};
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

/// What tables take at most where nobody says otherwise: more of them rarely prove more in the same time.
const MOST_BYTES_UNASKED: u64 = 4 << 30;

/// Memory of this process.
struct InUse {
    /// In the memory of the machine, in bytes.
    resident: u64,
    /// Of the address space, in bytes.
    address_space: u64,
}

impl InUse {
    /// Zeros where the system does not say.
    fn now() -> Self {
        let pid = Pid::from_u32(std::process::id());
        let mut system = System::new();
        system.refresh_processes_specifics(
            ProcessesToUpdate::Some(&[pid]),
            false,
            ProcessRefreshKind::nothing().with_memory().without_tasks(),
        );
        let process = system.process(pid);
        Self {
            resident: process.map_or(0, |process| process.memory()),
            address_space: process.map_or(0, |process| process.virtual_memory()),
        }
    }
}

/// Resident memory of this process, in bytes; 0 where the system does not say.
fn resident_bytes() -> u64 {
    InUse::now().resident
}

/// Addresses that this process may have, in bytes; `None` without a limit.
pub(crate) fn addresses() -> Option<u64> {
    getrlimit(Resource::As).current
}

/// Whether this process takes more than so much of the machine's memory, or nearly all the addresses that it may have: an allocation that
/// finds none ends it.
pub(crate) fn is_short(most_bytes: u64) -> bool {
    let in_use = InUse::now();
    let nearly = |limit: u64| limit - limit / 8;
    in_use.resident > most_bytes || addresses().is_some_and(|limit| in_use.address_space > nearly(limit))
}

/// What this process may take where nobody says otherwise, in bytes: what it has, and three quarters of what the machine, or the
/// control group that it runs in, has free.
pub(crate) fn default_limit_bytes() -> u64 {
    let mut system = System::new();
    system.refresh_memory();
    let of_group = system.cgroup_limits().map_or(u64::MAX, |group| group.free_memory);
    let free = system.available_memory().min(of_group);
    resident_bytes() + free / 4 * 3
}

/// Bytes for whatever grows while a search goes on, if the process may take so many: half of what it has not got yet, since a solver
/// runs beside, and what grows is copied as it does.
pub(crate) fn room_bytes(limit_bytes: Option<u64>) -> usize {
    let in_use = InUse::now();
    let of_memory = match limit_bytes {
        Some(limit) => limit.saturating_sub(in_use.resident) / 2,
        None => (default_limit_bytes().saturating_sub(in_use.resident) / 2).min(MOST_BYTES_UNASKED),
    };
    let of_addresses = match addresses() {
        Some(limit) => limit.saturating_sub(in_use.address_space) / 2,
        None => u64::MAX,
    };
    usize::try_from(of_memory.min(of_addresses)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_half_of_what_is_left() {
        let resident = resident_bytes();
        assert!(resident > 1 << 20, "a test takes more than {resident} bytes");
        assert_eq!(room_bytes(Some(0)), 0);
        let room = room_bytes(Some(resident + (1 << 30)));
        assert!((1 << 28..=1 << 29).contains(&room), "{room}");
        assert!(default_limit_bytes() > resident);
    }
}
