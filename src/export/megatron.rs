//! Megatron: `--pipeline-model-parallel-layout` (NVIDIA, *Megatron Core user guide*, custom pipeline model parallel layout): a
//! string of `E` for the embedding, `t` for a transformer layer, `L` for the loss, with `|` between stages and `t*3` for
//! three.
//!
//! Megatron builds the model itself, so the network must be a stack of equal blocks.

use super::devices::RankDevices;
use super::framework::{Stages, no_empty_stage, unsupported};
use super::{Exported, Ordered, megatron_modes, megatron_states, stack};
use crate::model::fault::Fault;
use crate::model::instance::Instance;
use crate::model::network::Stack;
use crate::model::options::Region;
use crate::model::setting;
use crate::model::words::words;
use crate::problem::plan::Plan;
use crate::schedule::{Placement, rules};

/// The networks that Megatron builds.
const BUILDS: &str = "one stack of equal transformer blocks, which is what Megatron builds";

/// Writes the flags.
///
/// Virtual stages are the stages of the layout beyond the devices; Megatron lays them in a loop.
pub(super) fn write(instance: &Instance, plan: &Plan) -> Exported {
    let devices = match (plan.virtual_stages(), plan.problem.placement, plan.problem.stages) {
        (None, ..) => plan.stages.len(),
        (Some(_), Some(Placement::Loop), Some(devices)) => devices,
        (Some(_), ..) => {
            return Err(unsupported(
                "the plan".into(),
                "virtual stages in a V",
                words!(
                    "{}, which is how Megatron lays them",
                    setting::PLACEMENT.given("loop")
                ),
            ));
        }
    };
    let ranks = RankDevices::of_stages(instance, plan)?;
    flags(instance, plan, (devices, ranks))
}

/// Writes the flags where devices run several stages in turn. Megatron takes no order: it runs 1F1B, or interleaved 1F1B once its
/// layout has more stages than there are devices.
pub(super) fn write_ordered(instance: &Instance, plan: &Plan, ordered: &Ordered) -> Exported {
    let is_own = |name: &str| rules::find(name).is_some_and(|rule| ordered.is_of(rule));
    match ["1f1b", "interleaved"].into_iter().any(is_own) {
        true => {
            let ranks = RankDevices::of_lines(instance, plan, ordered)?;
            flags(instance, plan, (ordered.devices(), ranks))
        }
        false => Err(unsupported(
            "the order".into(),
            "another order than `1f1b` and `interleaved` of `stagecut schedule --rule`",
            words!(
                "one of these two, which is what Megatron runs; {} takes any",
                setting::TO.given("torch")
            ),
        )),
    }
}

fn flags(instance: &Instance, plan: &Plan, (devices, ranks): (usize, RankDevices)) -> Exported {
    let stages = Stages::for_region(instance, plan, Region::Megatron)?;
    no_empty_stage(plan)?;
    let stack = stack::find(instance, &stages, BUILDS)?;
    refuse_unlike(instance, &stack)?;
    let in_stage = stack::blocks_a_stage(instance, &stages, &stack)?;
    let mut symbols = vec![String::new(); stages.count];
    symbols[0].push('E');
    for (symbols, &count) in symbols.iter_mut().zip(&in_stage) {
        match count {
            0 => {}
            1 => symbols.push('t'),
            _ => symbols.push_str(&format!("t*{count}")),
        }
    }
    if let Some(last) = symbols.last_mut() {
        if last.chars().next_back().is_some_and(|c| c.is_ascii_digit()) {
            last.push(',');
        }
        last.push('L');
    }
    let ranks = ranks.no_cpu("Megatron")?;
    let modes = megatron_modes::flags(instance, plan, (&stack.blocks, ranks.gpus()?))?;
    let states = megatron_states::flags(instance, plan)?;
    let environment = ranks
        .environment()?
        .map_or_else(String::new, |environment| environment.shell());
    Ok(format!(
        "{environment}--num-layers {} --pipeline-model-parallel-size {} --pipeline-model-parallel-layout \"{}\"{modes}{states}\n",
        stack.blocks.len(),
        devices,
        symbols.join("|")
    ))
}

/// Refuses blocks of other operators or parameters than the first.
fn refuse_unlike(instance: &Instance, stack: &Stack) -> Result<(), Fault> {
    if let Some([first, number]) = stack.unlike(&instance.network) {
        let family = &stack.family;
        let found = format!("`{family}{number}` with other operators or parameters than `{family}{first}`");
        return Err(unsupported("the network".into(), found, BUILDS));
    }
    Ok(())
}
