//! Megatron: `--pipeline-model-parallel-layout` (NVIDIA, *Megatron Core user guide*, custom pipeline model parallel layout), from
//! plans and to stages. What a layout says and which are refused, [`megatron_layout`](super::megatron_layout) knows.
//!
//! Megatron builds the model itself, so the network must be a stack of blocks: of any kind, since a layout only counts them.

use super::devices::RankDevices;
use super::framework::{Stages, unsupported};
use super::megatron_layout::{Layout, Letter, Model};
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
pub(super) const BUILDS: &str = "one stack of transformer blocks, which is what Megatron builds";

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
    let stack = stack::find(instance, &stages, BUILDS)?;
    let (layout, mtp) = layout(instance, &stages, &stack)?;
    let model = Model {
        devices,
        virtual_stages: None,
        decoders: stack.blocks.len(),
        mtp,
    };
    if let Some(fault) = layout.refusals(&model).into_iter().next() {
        return Err(fault);
    }
    let ranks = ranks.no_cpu("Megatron")?;
    let modes = megatron_modes::flags(instance, plan, (&stack.blocks, ranks.gpus()?))?;
    let states = megatron_states::flags(instance, plan)?;
    let environment = ranks
        .environment()?
        .map_or_else(String::new, |environment| environment.shell());
    let predictors = match mtp {
        0 => String::new(),
        mtp => format!(" --mtp-num-layers {mtp}"),
    };
    let batch = batch_flags(instance, plan);
    Ok(format!(
        "{environment}--num-layers {}{predictors} --pipeline-model-parallel-size {devices} --pipeline-model-parallel-layout \"{layout}\"{modes}{states}{batch}\n",
        stack.blocks.len(),
    ))
}

/// What an iteration takes in, as far as the network says: times and memory of the plan are those of these sizes.
fn batch_flags(instance: &Instance, plan: &Plan) -> String {
    let of = instance.network.micro_batch;
    let Some((of, sequences)) = of.and_then(|of| Some((of, of.sequences?))) else {
        return String::new();
    };
    let length = of.tokens / sequences as f64;
    let all = plan
        .problem
        .micro_batches
        .map_or_else(String::new, |micro_batches| {
            format!(
                " --global-batch-size {}",
                u128::from(micro_batches) * u128::from(sequences)
            )
        });
    format!(" --seq-length {length} --micro-batch-size {sequences}{all}")
}

/// The layout of a plan, of whatever target; `None` where Megatron has none for it.
#[cfg(feature = "cli")]
pub(crate) fn layout_of(instance: &Instance, plan: &Plan) -> Option<Layout> {
    let stages = Stages::for_region(instance, plan, Region::Megatron).ok()?;
    let stack = stack::find(instance, &stages, BUILDS).ok()?;
    layout(instance, &stages, &stack).ok().map(|(layout, _)| layout)
}

/// The layout of stages, and how many layers of multi-token prediction it has.
fn layout(instance: &Instance, stages: &Stages, stack: &Stack) -> Result<(Layout, usize), Fault> {
    let counts = stack::counts(instance, stages, stack)?;
    let [before, after] = stack::ends(instance, stages, stack)?;
    let (predictors, after) = instance.network.predictors(after);
    let mtp = predictors.len();
    let predictors: Vec<usize> = predictors.into_values().flatten().collect();
    let mut layout = Layout {
        stages: vec![Vec::new(); stages.count],
    };
    // A model without an embedding or a head still has the framework's own.
    let ends = [
        (&before, "the embedding", 0),
        (&predictors, "multi-token prediction", 0),
        (&after, "the head", stages.count - 1),
    ];
    let mut places = [0; 3];
    for (place, (layers, what, own)) in places.iter_mut().zip(ends) {
        *place = match layers.is_empty() {
            true => own,
            false => stack::one_stage(instance, stages, layers, what)?,
        };
    }
    layout.stages[places[0]].push(Letter::Embedding);
    for (stage, count) in layout.stages.iter_mut().zip(counts) {
        stage.extend(vec![Letter::Decoder; count]);
    }
    layout.stages[places[1]].extend(vec![Letter::Mtp; mtp]);
    layout.stages[places[2]].push(Letter::Loss);
    Ok((layout, mtp))
}
