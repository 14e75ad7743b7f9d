//! Where a lower bound comes from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Declares the sources with the names they have in plans, reports and studies: one line each.
macro_rules! sources {
    ($($(#[doc = $doc:literal])+ $source:ident = $name:literal,)+) => {
        /// What proved a lower bound.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[non_exhaustive]
        pub enum BoundSource {
            /// Nothing: the bound is 0.
            #[default]
            #[serde(rename = "none")]
            None,
            $($(#[doc = $doc])+ #[serde(rename = $name)] $source,)+
        }

        impl BoundSource {
            /// Its name.
            pub const fn name(self) -> &'static str {
                match self {
                    Self::None => "none",
                    $(Self::$source => $name,)+
                }
            }
        }
    };
}

sources! {
    /// All work over the number of stages.
    WorkPerStage = "work per stage",
    /// What items count for in any stage that they fit: dual feasible functions of their work.
    DualFeasible = "dual feasible function",
    /// All work over all devices, where these differ or hold several chunks.
    WorkOverDevices = "work over devices",
    /// What devices of several chunks pay for transfers and can hold of a chain, in few runs.
    RoomOfDevices = "room of devices",
    /// The item that takes longest.
    LargestItem = "largest item",
    /// The memory of a layer that fits no device.
    MemoryOfALayer = "memory of a layer",
    /// The cheapest stage that could hold an item.
    AnchoredStage = "anchored stage",
    /// What the first stages of a plan can carry, boundary by boundary.
    BoundaryChain = "chain of boundaries",
    /// Three blocks around one stage.
    ThreeBlock = "three-block",
    /// Stage windows, one of them empty.
    Windows = "windows",
    /// The least period, for an iteration.
    Period = "period",
    /// The least period without transfers, for overlapped ones.
    WorkAlone = "work alone",
    /// The least period where stages hold no more than if the passes of every layer lay together.
    PassesTogether = "passes together",
    /// The least period without pendant items.
    WithoutPendantItems = "without pendant items",
    /// The mixed-integer program.
    Program = "program",
    /// The dynamic program over ideals.
    Ideals = "ideals",
    /// The dynamic program over ideals, devices and replicas, where stages have modes.
    IdealsAndModes = "ideals and modes",
    /// The search over chains of ideals, for iterations as simulated.
    ChainsOfIdeals = "chains of ideals",
    /// The search over where devices of several chunks cut a chain.
    ChainsOfChunks = "chains of chunks",
    /// The search over ideals and the loads of devices, where these hold several chunks.
    IdealsAndLoads = "ideals and loads",
    /// The search over stages as paths of a decision diagram, and its prices.
    StageDiagram = "stage diagram",
    /// The dynamic program over pairs of ideals.
    IdealPairs = "pairs of ideals",
    /// The tree search over ideals.
    IdealTree = "tree of ideals",
    /// The search over ideals and devices, level by level.
    DeviceLevels = "levels of devices",
    /// The dynamic program over ideals and devices.
    IdealsAndDevices = "ideals and devices",
    /// Exhaustive search.
    ExhaustiveSearch = "exhaustive search",
}

impl std::fmt::Display for BoundSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}
