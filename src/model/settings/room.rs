//! Room for requests: tokens and sequences whose caches every device holds beside its layers.
//!
//! A stage with layers that keep `κ` bytes a token and `σ` a sequence holds `P + N κ + S σ` bytes: what its layers hold whatever is served,
//! and the caches of S sequences that have N tokens together. Servers give out what is left of a card, so that the stage with the
//! least room for its layers decides how many tokens there are (`get_num_blocks` and `KVCacheConfig` of vLLM, which takes the least of all
//! ranks).

use super::{Settings, has_groups};
use crate::model::fault::{Fault, FaultKind};
use crate::model::instance::Instance;
use crate::model::network::{Cache, Layer};
use crate::model::options::{Objective, PipelineOptions};
use crate::model::prompt::Prompt;
use crate::model::setting;
use crate::model::units::LARGEST_EXACT;
use crate::model::words::{Setting, Words, words};

/// Room for requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Tokens of all sequences together, that each replica of a stage has room for.
    pub tokens: u64,
    /// Sequences.
    pub sequences: u64,
    /// Whether as many tokens as possible are asked for; `tokens` is then what a plan must have in any case.
    pub is_most: bool,
}

impl Room {
    /// What options ask for.
    pub(super) fn new(options: &PipelineOptions) -> Self {
        let is_most = options.objective == Some(Objective::Tokens);
        let of_each = options
            .context
            .map(|context| context.saturating_mul(options.sequences.unwrap_or(1)));
        let tokens = options.tokens.or(of_each);
        // What is read of a prompt is kept.
        let read = Prompt::new(options.prompt, options.given_chunks(), 0.0).map(|prompt| prompt.tokens);
        Self {
            tokens: tokens.max(read).unwrap_or(0),
            sequences: options
                .sequences
                .unwrap_or(u64::from(is_most || tokens.max(read).is_some())),
            is_most,
        }
    }

    /// What a layer keeps, in bytes.
    pub fn bytes(self, cache: Cache) -> u64 {
        let of_tokens = self.tokens.saturating_mul(cache.token_bytes);
        of_tokens.saturating_add(self.sequences.saturating_mul(cache.sequence_bytes))
    }
}

impl Settings {
    /// The same problem with room for so many tokens, and none asked for beyond them.
    pub(crate) fn with_tokens(&self, tokens: u64) -> Self {
        Self {
            room: Room {
                tokens,
                is_most: false,
                ..self.room
            },
            ..self.clone()
        }
    }

    /// The same problem for a plan that states so many tokens: where the most are asked for, it holds room for these.
    pub(crate) fn of_plan_with(&self, tokens: Option<u64>) -> Self {
        let room = match self.room.is_most {
            true => Room {
                tokens: tokens.unwrap_or(0),
                ..self.room
            },
            false => self.room,
        };
        Self { room, ..self.clone() }
    }

    /// What is wrong with the room that is asked for.
    pub(super) fn room_faults(&self, instance: &Instance, options: &PipelineOptions) -> Vec<Fault> {
        let mut faults = self.then_faults(options);
        let numbers = [
            (setting::TOKENS, options.tokens),
            (setting::SEQUENCES, options.sequences),
            (setting::CONTEXT, options.context),
        ];
        let given = numbers
            .into_iter()
            .filter_map(|(option, number)| Some((option, number?)));
        for (option, number) in given.clone() {
            if !(1..=LARGEST_EXACT).contains(&number) {
                let expected = "a whole number from 1 to 2^53";
                let found = number as f64;
                faults.push(Fault::new(option, FaultKind::BadNumber { found, expected }));
            }
        }
        let most = self
            .room
            .is_most
            .then(|| setting::OBJECTIVE.given(Objective::Tokens));
        let mut given = given.map(|(option, number)| option.given(number));
        let Some(asked) = most.or_else(|| given.next()) else {
            return faults;
        };
        faults.extend(self.beside_room(instance, options, &words!("{}", asked)));
        faults.extend(self.no_cache_fault(instance));
        faults.extend(self.no_limit_fault(instance));
        faults
    }

    /// What comes after the most tokens.
    fn then_faults(&self, options: &PipelineOptions) -> Vec<Fault> {
        let refusal = match (self.room.is_most, self.objective) {
            (false, _) if options.then.is_some() => {
                let found = words!("it without {}", setting::OBJECTIVE.given(Objective::Tokens));
                Some((found, "the most tokens, and what comes after".into()))
            }
            (false, _) | (true, Objective::Period | Objective::Latency) => None,
            (true, other) => Some((format!("`{other}`").into(), "`period` or `latency`".into())),
        };
        let fault = |(found, expected): (Words, Words)| {
            Fault::new(setting::THEN, FaultKind::Contradiction { found, expected })
        };
        refusal.map(fault).into_iter().collect()
    }

    /// What cannot be asked beside room.
    fn beside_room(&self, instance: &Instance, options: &PipelineOptions, with: &Words) -> Vec<Fault> {
        let is_most = self.room.is_most;
        let has_groups = has_groups(instance, self.groups);
        let says_both = options.tokens.is_some() && options.context.is_some();
        let refusals: [(bool, Setting, &str, Words); 6] = [
            (
                is_most && options.tokens.is_some(),
                setting::TOKENS,
                "it",
                "as many as are asked for, or the most".into(),
            ),
            (
                is_most && options.context.is_some(),
                setting::CONTEXT,
                "it",
                "as many as are asked for, or the most".into(),
            ),
            (
                says_both && !is_most,
                setting::CONTEXT,
                "it",
                words!(
                    "{}, or {} and {}",
                    setting::TOKENS,
                    setting::SEQUENCES,
                    setting::CONTEXT
                ),
            ),
            (
                self.mode.trains(),
                setting::MODE,
                "`training`",
                words!(
                    "{}: a cache is for requests, and {} shares out sequences in training",
                    setting::MODE.given("inference"),
                    setting::CONTEXT_PARALLEL
                ),
            ),
            (
                is_most && !self.replicas.is_one(),
                setting::REPLICAS,
                "replicas",
                words!(
                    "{}, which is what tokens are counted for",
                    setting::REPLICAS.given(1)
                ),
            ),
            (
                is_most && has_groups,
                setting::GROUPS,
                "groups",
                "devices that are each alone, or tensor groups".into(),
            ),
        ];
        let asked = refusals.into_iter().filter(|(is_asked, ..)| *is_asked);
        let fault = |(_, at, what, expected): (bool, Setting, &str, Words)| {
            let found = words!("{} with {}", what, with.clone());
            Fault::new(at, FaultKind::Contradiction { found, expected })
        };
        asked.map(fault).collect()
    }

    /// Layers none of which keeps anything of a token.
    fn no_cache_fault(&self, instance: &Instance) -> Option<Fault> {
        let mut layers = instance
            .network
            .layers
            .iter()
            .filter(|layer| self.includes(layer));
        let keeps = |layer: &Layer| layer.modes().iter().any(|mode| mode.cache.token_bytes > 0);
        let is_asked = self.room.is_most || self.room.tokens > self.prompt_tokens();
        let kind = FaultKind::Missing {
            what: "`kv_bytes_per_token`".into(),
            expected: "what layers keep of a token".into(),
            remedy:
                "`stagecut import` of a configuration writes it; else give it to every layer that attends"
                    .into(),
        };
        (is_asked && !layers.any(keeps)).then(|| Fault::new("network.layers", kind))
    }

    /// The most tokens on devices of which some have no limit.
    fn no_limit_fault(&self, instance: &Instance) -> Option<Fault> {
        let kinds = self.kinds.iter().filter(|_| self.room.is_most);
        let limit = |kind: usize| self.device_bytes(&instance.cluster, kind);
        let mut without = kinds.filter(|&&kind| limit(kind).is_none_or(|bytes| bytes == u64::MAX));
        let name = &instance.cluster.kinds[*without.next()?].name;
        let kind = FaultKind::Missing {
            what: format!("memory of `{name}`"),
            expected: "a limit, without which there is no end to tokens".into(),
            remedy: words!(
                "give the kind `memory_bytes`, or all of them {}",
                setting::MEMORY_LIMIT.given("24GB")
            ),
        };
        Some(Fault::new(setting::MEMORY_LIMIT, kind))
    }
}
