//! The options that the program speaks of, each named once.

use super::words::Setting;

macro_rules! settings {
    ($($name:ident = $field:literal),+ $(,)?) => {
        $(
            // Of some only commands speak.
            #[cfg_attr(not(feature = "cli"), allow(dead_code))]
            pub(crate) const $name: Setting = Setting::new($field);
        )+
    };
}

settings! {
    MODE = "mode",
    STAGES = "stages",
    DEVICES = "devices",
    ALL_STAGES = "all_stages",
    OBJECTIVE = "objective",
    MICRO_BATCHES = "micro_batches",
    SCHEDULE = "schedule",
    COMMUNICATION = "communication",
    BANDWIDTH = "bandwidth_bytes_per_s",
    DEVICE_KINDS = "device_kinds",
    MEMORY_LIMIT = "memory_limit",
    CUTS = "cuts",
    WORKER = "worker",
    SHARES = "shares",
    SHARE_PARTS = "share_parts",
    GROUPS = "groups",
    SYNCHRONIZATION = "synchronization",
    OPTIMIZER = "optimizer",
    PRECISION = "precision",
    OPTIMIZER_SHARDING = "optimizer_sharding",
    TENSOR = "tensor",
    EXPERT = "expert",
    EXPERT_LOAD = "expert_load",
    REPLICAS = "replicas",
    RECOMPUTE = "recompute",
    UNIFORM = "uniform",
    FOR = "target",
    VIRTUAL_STAGES = "virtual_stages",
    PLACEMENT = "placement",
    CONSTRAINTS = "constraints",
    CLUSTER = "cluster",
    EFFICIENCY = "efficiency",
    IN_FLIGHT = "in_flight",
    OUTSIDE_FILES = "outside_files",
    INSTANCE = "instance",
    ROOM = "room",
    ORDER = "order",
    TO = "to",
    HEADS = "heads",
    KEY_VALUE_HEADS = "key_value_heads",
    HIDDEN = "hidden",
    SEQUENCE = "sequence",
    CONTEXT = "context",
    TIME_LIMIT = "time_limit",
    TOLERANCE = "tolerance",
    OUTPUT = "output",
    WEIGHT_SHARE = "weight_share",
    MICRO_BATCH = "micro_batch",
    GLOBAL_BATCH = "global_batch",
    DIM = "dim",
    TRIP_COUNT = "trip_count",
}

/// The options of a problem, in the order of their fields.
pub(crate) const OF_PROBLEM: [Setting; 30] = [
    MODE,
    STAGES,
    DEVICES,
    ALL_STAGES,
    OBJECTIVE,
    MICRO_BATCHES,
    SCHEDULE,
    COMMUNICATION,
    BANDWIDTH,
    DEVICE_KINDS,
    MEMORY_LIMIT,
    CUTS,
    WORKER,
    SHARES,
    SHARE_PARTS,
    GROUPS,
    SYNCHRONIZATION,
    OPTIMIZER,
    PRECISION,
    OPTIMIZER_SHARDING,
    TENSOR,
    EXPERT,
    EXPERT_LOAD,
    REPLICAS,
    RECOMPUTE,
    UNIFORM,
    FOR,
    VIRTUAL_STAGES,
    PLACEMENT,
    CONSTRAINTS,
];
