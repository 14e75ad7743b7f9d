//! Room for requests: what layers keep of them, and how many tokens the devices of a plan have room for.

use std::collections::BTreeMap;

use super::Checker;
use crate::model::network::Cache;
use crate::problem::plan::{Plan, Status};

impl Checker<'_> {
    /// What a layer keeps of the requests that room is asked for, in bytes.
    pub(super) fn served(&self, cache: Cache) -> u128 {
        let room = self.settings.room;
        let pairs = [
            (room.tokens, cache.token_bytes),
            (room.sequences, cache.sequence_bytes),
        ];
        pairs
            .map(|(number, each)| u128::from(number) * u128::from(each))
            .iter()
            .sum()
    }

    /// Tokens that a plan states, and that no plan has room for more.
    pub(super) fn stated_room(&mut self, plan: &Plan) {
        let expected = self.tokens(plan);
        let is_most = self.settings.room.is_most && !plan.stages.is_empty();
        self.claim(
            plan.tokens == expected || (plan.tokens.is_none() && !is_most),
            || {
                format!(
                    "room for {:?} tokens stated, {expected:?} recomputed",
                    plan.tokens
                )
            },
        );
        self.claim(plan.tokens_bound.is_some() == is_most, || {
            let given = if is_most { "without" } else { "with" };
            format!("the most tokens {given} `tokens_bound`")
        });
        let Some(bound) = plan.tokens_bound else {
            return;
        };
        self.claim(plan.tokens <= Some(bound), || {
            format!("room for {:?} tokens, above the bound {bound}", plan.tokens)
        });
        self.claim(
            plan.status != Status::Optimal || plan.tokens == Some(bound),
            || {
                format!(
                    "status `optimal` with room for {:?} tokens, below the bound {bound}",
                    plan.tokens
                )
            },
        );
    }

    /// Whether a plan may have room for more tokens than it has.
    pub(super) fn may_have_more_room(plan: &Plan) -> bool {
        plan.tokens_bound.is_some_and(|bound| plan.tokens < Some(bound))
    }

    /// Tokens that every device has room for: what is left of its memory, by what its layers keep of a token.
    fn tokens(&self, plan: &Plan) -> Option<u64> {
        if self.settings.mode.trains() {
            return None;
        }
        // Bytes held and kept of a token, by the first device of each stage, whose limit is that of all.
        let mut by_device: BTreeMap<&str, [u128; 2]> = BTreeMap::new();
        for (at, stage) in plan.stages.iter().enumerate() {
            let sums = by_device.entry(stage.devices.first()?.as_str()).or_default();
            sums[0] += u128::from(self.figures.get(at)?.memory_bytes);
            sums[1] += self.kept_of_a_token(plan, at);
        }
        let tokens = by_device.iter().filter_map(|(device, &[held, of_a_token])| {
            let (kind, _) = device.rsplit_once(':')?;
            let kind = self.instance.cluster.kind(kind)?;
            let limit = self.settings.device_bytes(&self.instance.cluster, kind);
            let limit = limit.filter(|&limit| limit < u64::MAX && of_a_token > 0)?;
            let left = u128::from(limit).saturating_sub(held) / of_a_token;
            u64::try_from(left + u128::from(self.settings.room.tokens)).ok()
        });
        tokens.min()
    }

    /// Bytes that a device of a stage keeps of a token.
    fn kept_of_a_token(&self, plan: &Plan, at: usize) -> u128 {
        let degree = plan.stages[at].mode.as_ref().map(|mode| mode.tensor);
        let layers = self.instance.network.layers.iter().enumerate();
        let here = layers.filter(|&(layer, _)| self.own_stage(layer) == Some(at));
        let kept = here.map(|(_, layer)| match degree {
            None => layer.cache.token_bytes,
            Some(degree) => {
                let modes = layer.modes();
                let of_degree = modes.iter().find(|mode| mode.tensor == degree);
                of_degree.map_or(0, |mode| mode.cache.token_bytes)
            }
        });
        kept.map(u128::from).sum()
    }
}
