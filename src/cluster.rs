//! The devices and links a network may run on.

/// Devices and the link between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// Kinds of device, at least one, of unique names.
    pub kinds: Vec<DeviceKind>,
    /// The link between any two devices.
    pub link: Link,
}

/// A kind of device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceKind {
    /// Its name.
    pub name: String,
    /// How many there are, where the instance says so.
    pub count: Option<usize>,
    /// Memory of one device; `None` without a limit.
    pub memory_bytes: Option<u64>,
    /// False where transfers are free, such as for a host CPU.
    pub pays_communication: bool,
}

/// A link between two devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Bandwidth in bytes per second, positive.
    pub bandwidth_bytes_per_s: f64,
    /// Time before the first byte arrives, in ns.
    pub latency_ns: u64,
}

/// Bandwidth of a link that no file or option gives: PCI Express 3.0 x16, 8 GT/s on 16 lanes in 128b/130b coding
/// (PCI-SIG, *PCI Express Base Specification 3.0*, 2010).
pub const DEFAULT_BANDWIDTH_BYTES_PER_S: f64 = 15.754e9;

impl Cluster {
    /// Position of the kind of that name.
    pub fn kind(&self, name: &str) -> Option<usize> {
        self.kinds.iter().position(|kind| kind.name == name)
    }
}
