//! Prompts in chunks: what is asked, and with what it cannot be asked together.

use super::{Settings, has_groups};
use crate::model::fault::{Fault, FaultKind};
use crate::model::instance::Instance;
use crate::model::network::{Layer, Tensor};
use crate::model::options::{ChunkSizes, Objective, PipelineOptions, WorkerMode};
use crate::model::prompt::{Chunk, MOST_CHUNKS, Prompt, Reading};
use crate::model::setting;
use crate::model::units::LARGEST_EXACT;
use crate::model::words::{Piece, Setting, Words, words};

/// What options ask for.
pub(super) fn asked(instance: &Instance, options: &PipelineOptions) -> Option<Prompt> {
    let micro_batch = instance.network.micro_batch.map_or(0.0, |of| of.tokens);
    Prompt::new(options.prompt, options.given_chunks(), micro_batch)
}

/// Says what chunks leave no choice of: how many micro-batches there are, and what is minimised.
pub(super) fn complete(options: &mut PipelineOptions) {
    if options.chunks.is_some() {
        // Too many or none are refused as chunks, and so are those that are to be chosen.
        let prompt = Prompt::new(options.prompt, options.given_chunks(), 0.0);
        let count = prompt.map_or(1, |prompt| prompt.count());
        options.micro_batches.get_or_insert(count.clamp(1, MOST_CHUNKS));
        options.objective.get_or_insert(Objective::Iteration);
    }
}

/// Modes that are kept for all chunks of a prompt: some hundred megabytes.
const MOST_MODES_OF_CHUNKS: usize = 2_000_000;

impl Settings {
    /// Whether the objective is the time until a prompt is read, chunk by chunk.
    pub fn reads_prompt(&self) -> bool {
        self.prompt.is_some() && self.objective == Objective::Iteration
    }

    /// Tokens of the prompt, for which there is room whatever else is asked; 0 where none is read.
    pub(super) fn prompt_tokens(&self) -> u64 {
        self.prompt.as_ref().map_or(0, |prompt| prompt.tokens)
    }

    /// Time to move once what a chunk makes of a tensor, in ns, where transfers take time.
    pub(crate) fn chunk_transfer_ns(&self, tensor: &Tensor, chunk: Chunk, prompt: &Prompt) -> u64 {
        self.size_ns(tensor.size.part(|all| chunk.share_of(all, prompt)))
    }

    /// What is wrong with the prompt that is asked for.
    pub(super) fn prompt_faults(&self, instance: &Instance, options: &PipelineOptions) -> Vec<Fault> {
        if let Some(choose @ ChunkSizes::Choose(_)) = &options.chunks {
            let kind = FaultKind::Unsupported {
                found: format!("`{choose}`").into(),
                expected: "a number of tokens: `solve`, `bound`, `compare`, `evaluate` and `schedule` of a plan choose one".into(),
            };
            return vec![Fault::new(setting::CHUNKS, kind)];
        }
        let Some(prompt) = &self.prompt else {
            let missing = FaultKind::Missing {
                what: "number of tokens of a chunk".into(),
                expected: words!("{} with {}", setting::CHUNKS.given("N"), setting::PROMPT),
                remedy: words!("try {}", setting::CHUNKS.given(2048)),
            };
            let is_asked = options.prompt.is_some();
            return is_asked
                .then(|| Fault::new(setting::CHUNKS, missing))
                .into_iter()
                .collect();
        };
        let faults = number_faults(prompt, options);
        if !faults.is_empty() {
            return faults;
        }
        let mut faults = self.beside_prompt(instance);
        faults.extend(self.no_attention_fault(instance));
        faults.extend(self.mode_faults(instance, prompt));
        if faults.is_empty() {
            faults.extend(self.long_prompt_fault(instance, prompt));
        }
        faults
    }

    /// What cannot be asked beside a prompt in chunks.
    fn beside_prompt(&self, instance: &Instance) -> Vec<Fault> {
        let kinds = || self.kinds.iter().map(|&kind| &instance.cluster.kinds[kind]);
        let has_groups = has_groups(instance, self.groups);
        let has_resources = kinds().any(|kind| !kind.resources.is_empty());
        let one = "devices that are each alone";
        let refusals: [(bool, Piece, Words, Words); 6] = [
            (
                self.mode.trains(),
                setting::MODE.into(),
                "`training`".into(),
                words!("{}", setting::MODE.given("inference")),
            ),
            (
                self.room.is_most || self.objective != Objective::Iteration,
                setting::OBJECTIVE.into(),
                match self.room.is_most {
                    true => "`tokens`".into(),
                    false => format!("`{}`", self.objective).into(),
                },
                words!(
                    "{}, the time until the last chunk is read; {} keeps room for tokens beside it",
                    setting::OBJECTIVE.given(Objective::Iteration),
                    setting::TOKENS
                ),
            ),
            (
                !(self.replicas.is_one() && self.expert.is_one()),
                setting::REPLICAS.into(),
                "replicas of stages, or experts that they share out,".into(),
                "1 of each: a chunk needs the keys and values of those before it, which one replica has"
                    .into(),
            ),
            (
                self.may_have_virtual_stages(),
                setting::VIRTUAL_STAGES.into(),
                "virtual stages".into(),
                words!(
                    "{}: servers read one run of layers on a device, and nobody says in which order it would read several",
                    setting::VIRTUAL_STAGES.given(1)
                ),
            ),
            (
                has_groups,
                setting::GROUPS.into(),
                "groups".into(),
                words!(
                    "{}: tokens of a chunk that are shared out need the keys and values of each other",
                    one
                ),
            ),
            (
                has_resources || self.worker == WorkerMode::Concurrent,
                "cluster.device_kinds".into(),
                "devices with shares of resources".into(),
                words!(
                    "{}: shares are those of two phases, of which a prompt has one",
                    one
                ),
            ),
        ];
        let asked = refusals.into_iter().filter(|(is_asked, ..)| *is_asked);
        let fault = |(_, at, what, expected): (bool, Piece, Words, Words)| {
            let found = words!("{} with a prompt in {}", what, setting::CHUNKS);
            Fault::new(at, FaultKind::Contradiction { found, expected })
        };
        asked.map(fault).collect()
    }

    /// A network that does not say what a chunk is a part of, or what of it is attention.
    fn no_attention_fault(&self, instance: &Instance) -> Option<Fault> {
        let layers = || {
            instance
                .network
                .layers
                .iter()
                .filter(|layer| self.includes(layer))
        };
        let (at, what, expected) = if instance.network.micro_batch.is_none() {
            (
                "network.micro_batch",
                "number of tokens",
                "`tokens` of the micro-batch that times are of",
            )
        } else if !layers().any(|layer| layer.says_attention) {
            (
                "network.layers",
                "`attention_ms` or `attention_flops`",
                "what of some layer grows with the tokens before a chunk, even if it is 0",
            )
        } else {
            return None;
        };
        let kind = FaultKind::Missing {
            what: what.into(),
            expected: expected.into(),
            remedy: words!(
                "`stagecut import` and `stagecut generate` write it with {}, if no {} stands behind a {}",
                setting::PHASE.given("prefill"),
                setting::SEQUENCE,
                setting::CONTEXT
            ),
        };
        Some(Fault::new(at, kind))
    }

    /// Modes of which nobody knows what of them is attention, though others of their layers say it, and more modes of chunks than are kept.
    fn mode_faults(&self, instance: &Instance, prompt: &Prompt) -> Vec<Fault> {
        if !self.modal {
            return Vec::new();
        }
        let layers = instance.network.layers.iter();
        let layers: Vec<&Layer> = layers.filter(|layer| self.includes(layer)).collect();
        let is_silent = |layer: &&&Layer| {
            let modes = layer.modes();
            let mut in_play = modes.iter().filter(|mode| self.tensor.allows(mode.tensor));
            layer.says_attention && in_play.any(|mode| !mode.says_attention)
        };
        let silent = layers.iter().find(is_silent).map(|layer| {
            let kind = FaultKind::Missing {
                what: "`attention_ms` or `attention_flops` of a mode".into(),
                expected:
                    "what of each mode grows with the tokens before a chunk, as the layer says of itself"
                        .into(),
                remedy: "0 says that nothing does".into(),
            };
            Fault::new(format!("layer `{}`", layer.id), kind)
        });
        let modes: usize = layers.iter().map(|layer| layer.modes().len()).sum();
        let kinds = self.kinds.len();
        let all = modes
            .saturating_mul(kinds)
            .saturating_mul(prompt.count() as usize);
        let many = (all > MOST_MODES_OF_CHUNKS).then(|| {
            let found = format!(
                "{modes} modes of layers on {kinds} kinds for {} chunks",
                prompt.count()
            );
            let expected =
                format!("at most {MOST_MODES_OF_CHUNKS} in all: larger chunks, or blocks as layers");
            let (found, expected) = (found.into(), expected.into());
            Fault::new(setting::CHUNKS, FaultKind::Contradiction { found, expected })
        });
        silent.into_iter().chain(many).collect()
    }

    /// A prompt that takes longer than can be counted.
    fn long_prompt_fault(&self, instance: &Instance, prompt: &Prompt) -> Option<Fault> {
        let longest = |readings: &[Option<Reading>]| {
            let readings = self.kinds.iter().filter_map(|&kind| readings[kind]);
            let each = readings.map(|reading| reading.most_ns(prompt));
            each.fold(0.0, f64::max)
        };
        let on_kinds = |layer: &Layer| {
            let modes = layer.modes.iter().map(|mode| longest(&mode.readings));
            modes.fold(longest(&layer.readings), f64::max)
        };
        let layers = instance
            .network
            .layers
            .iter()
            .filter(|layer| self.includes(layer));
        let work_ns: f64 = layers.map(on_kinds).sum();
        let parts = prompt.tokens as f64 / prompt.micro_batch;
        let moved = |tensor: &Tensor| {
            let each = self.transfer_ns(tensor) as f64;
            (1 + tensor.consumers.len()) as f64 * (each * parts + prompt.count() as f64 * (each + 1.0))
        };
        let moved_ns: f64 = match self.modal {
            // Whatever groups reduce and stages move of a micro-batch, for each chunk and each message once more.
            true => self.most_ns(instance) * (parts + prompt.count() as f64),
            false => instance.network.tensors.iter().map(moved).sum(),
        };
        let (found, most) = (work_ns + moved_ns, LARGEST_EXACT);
        // What is no number is too long.
        let fits = found <= most as f64;
        let unit = "ns";
        (!fits).then(|| Fault::new(setting::PROMPT, FaultKind::Overflow { found, most, unit }))
    }
}

/// Numbers of tokens that are none, or that do not fit each other.
fn number_faults(prompt: &Prompt, options: &PipelineOptions) -> Vec<Fault> {
    let contradiction = |at: Setting, found: String, expected: Words| {
        let found = found.into();
        vec![Fault::new(at, FaultKind::Contradiction { found, expected })]
    };
    if prompt.sizes.is_empty() {
        return contradiction(setting::CHUNKS, "none".into(), "tokens of each, or of all".into());
    }
    let all = prompt.sizes.iter().map(|&size| (setting::CHUNKS, size));
    let wrong = all
        .chain([(setting::PROMPT, prompt.tokens)])
        .find(|(_, tokens)| !(1..=LARGEST_EXACT).contains(tokens));
    if let Some((at, tokens)) = wrong {
        let expected = "a whole number of tokens from 1 to 2^53";
        let found = tokens as f64;
        return vec![Fault::new(at, FaultKind::BadNumber { found, expected })];
    }
    let count = prompt.count();
    if count > MOST_CHUNKS {
        let expected = format!("at most {MOST_CHUNKS} chunks of a prompt: larger ones");
        return contradiction(setting::CHUNKS, format!("{count} of them"), expected.into());
    }
    let sum: u64 = prompt.chunks().iter().map(|chunk| chunk.tokens).sum();
    let listed = prompt
        .sizes
        .iter()
        .fold(0u64, |sum, &size| sum.saturating_add(size));
    if sum != prompt.tokens || (prompt.sizes.len() > 1 && listed != prompt.tokens) {
        let found = format!("{listed} tokens in chunks of a prompt of {}", prompt.tokens);
        return contradiction(
            setting::CHUNKS,
            found,
            "all tokens of the prompt, or one number".into(),
        );
    }
    match options.micro_batches.filter(|&given| given != count) {
        Some(given) => contradiction(
            setting::MICRO_BATCHES,
            format!("{given} with a prompt of {count}"),
            words!("as many as there are {}, or nothing", setting::CHUNKS),
        ),
        None => Vec::new(),
    }
}
