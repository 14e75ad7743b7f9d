//! Random networks: layers in a line, each reading some of those shortly before it, so that branches open and close.
//!
//! Ours, to have many small problems whose parameters are known. Times and sizes are log-normal: a few layers are far longer than
//! most, as in profiles of real networks.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;

use crate::model::spec::{
    ClusterSpec, DeviceKindSpec, InstanceSpec, LayerSpec, LinkSpec, NetworkSpec, SCHEMA, TensorSpec,
};

/// What to generate.
#[derive(Clone, Copy, Debug, Deserialize, clap::Args)]
#[serde(default, deny_unknown_fields)]
pub struct Random {
    /// Layers
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub layers: u32,

    /// How far back a layer reads: 1 is a chain
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub reach: u32,

    /// Standard deviation of the logarithm of times and sizes: 0 makes all layers alike
    #[arg(long, default_value_t = 0.7, value_parser = |text: &str| number(text, 3.0))]
    pub spread: f64,

    /// Time to move a typical tensor, as a part of the time of a typical layer
    #[arg(long, default_value_t = 0.2, value_parser = |text: &str| number(text, 1000.0))]
    pub communication: f64,

    /// Seed
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}

/// A number from 0 to one that keeps times and sizes within what instances may say.
fn number(text: &str, most: f64) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=most).contains(number));
    number.ok_or_else(|| format!("expected a number from 0 to {most}"))
}

impl Default for Random {
    fn default() -> Self {
        Self {
            layers: 30,
            reach: 3,
            spread: 0.7,
            communication: 0.2,
            seed: 0,
        }
    }
}

/// Forward time of a typical layer; backward propagation takes about twice as long.
const TYPICAL_MS: f64 = 1.0;
/// Bandwidth at which a million bytes take a millisecond.
const BANDWIDTH_BYTES_PER_S: f64 = 1e9;
const BYTES_PER_MS: f64 = 1e6;

/// Builds the instance.
pub fn random(asked: &Random) -> InstanceSpec {
    let mut draw = Draw {
        rng: ChaCha8Rng::seed_from_u64(asked.seed),
        spread: asked.spread,
    };
    let layers: Vec<LayerSpec> = (0..asked.layers)
        .map(|at| LayerSpec {
            id: format!("l{at}"),
            forward_ms: Some(draw.log_normal(TYPICAL_MS)),
            backward_ms: Some(draw.log_normal(2.0 * TYPICAL_MS)),
            ..LayerSpec::default()
        })
        .collect();
    InstanceSpec {
        schema: Some(SCHEMA.into()),
        name: Some(format!("random-{}-{}-{}", asked.layers, asked.reach, asked.seed)),
        provenance: Some(format!("generated: {asked:?}")),
        network: NetworkSpec {
            tensors: tensors(asked, &mut draw),
            layers,
            ..NetworkSpec::default()
        },
        cluster: Some(ClusterSpec {
            device_kinds: vec![DeviceKindSpec::default()],
            link: Some(LinkSpec {
                bandwidth_bytes_per_s: BANDWIDTH_BYTES_PER_S,
                latency_ms: 0.0,
                nodes: None,
            }),
            ..ClusterSpec::default()
        }),
        ..InstanceSpec::default()
    }
}

/// A tensor a layer that is read at all; every layer but the first reads the one that a draw of its reach names, and
/// another one half of the time.
fn tensors(asked: &Random, draw: &mut Draw) -> Vec<TensorSpec> {
    let mut consumers = vec![Vec::new(); asked.layers as usize];
    for at in 1..asked.layers {
        let more = draw.rng.random_bool(0.5);
        for _ in 0..1 + u32::from(more) {
            let producer = at - draw.rng.random_range(1..=asked.reach.min(at));
            let readers: &mut Vec<String> = &mut consumers[producer as usize];
            let name = format!("l{at}");
            if readers.last() != Some(&name) {
                readers.push(name);
            }
        }
    }
    let read = consumers
        .into_iter()
        .enumerate()
        .filter(|(_, readers)| !readers.is_empty());
    read.map(|(producer, consumers)| TensorSpec {
        producer: format!("l{producer}"),
        consumers,
        bytes: Some((draw.log_normal(asked.communication * TYPICAL_MS) * BYTES_PER_MS).round()),
        transfer_ms: None,
    })
    .collect()
}

struct Draw {
    rng: ChaCha8Rng,
    spread: f64,
}

impl Draw {
    /// Log-normal with this median, by the method of Box and Muller, to whole microseconds.
    fn log_normal(&mut self, median: f64) -> f64 {
        let (u, v): (f64, f64) = (1.0 - self.rng.random::<f64>(), self.rng.random());
        let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
        (1e3 * median * (self.spread * normal).exp()).round() / 1e3
    }
}
