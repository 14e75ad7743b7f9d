//! torchtitan: `module_fqns_per_model_part`, the names of the modules of every stage.
//!
//! Source: torchtitan/distributed/pipeline_parallel.py, `generate_llm_fqn_per_model_part`. Its models name their parts alike:
//! `tok_embeddings`, `layers.0` and so on, `norm` and `output`; so the network must be a stack of blocks, of whatever names.

use super::framework::{Stages, unsupported};
use super::{Exported, stack};
use crate::instance::Instance;
use crate::options::Mode;
use crate::plan::Plan;

/// Writes the lines of the job's configuration.
pub(super) fn write(instance: &Instance, plan: &Plan) -> Exported {
    let stages = Stages::of(instance, plan)?;
    if plan.problem.mode == Some(Mode::Inference) {
        return Err(unsupported(
            "the plan".into(),
            "a plan for inference",
            "one for `--mode training`, which is what torchtitan does",
        ));
    }
    let expected = "one stack of transformer blocks, which is what torchtitan's models are";
    let stack = stack::find(instance, &stages, expected)?;
    let counts = stack::blocks_a_stage(instance, &stages, &stack)?;
    let mut lines = vec![
        "# Later versions call the head `lm_head` instead of `output`.".to_owned(),
        "[parallelism]".to_owned(),
        format!("pipeline_parallel_degree = {}", stages.count),
        "module_fqns_per_model_part = [".to_owned(),
    ];
    let mut begin = 0;
    for (stage, count) in counts.iter().enumerate() {
        let mut names: Vec<String> = (begin..begin + count)
            .map(|block| format!("\"layers.{block}\""))
            .collect();
        begin += count;
        if stage == 0 {
            names.insert(0, "\"tok_embeddings\"".to_owned());
        }
        if stage == stages.count - 1 {
            names.extend(["\"norm\"".to_owned(), "\"output\"".to_owned()]);
        }
        lines.push(format!("    [{}],", names.join(", ")));
    }
    lines.push("]\n".to_owned());
    Ok(lines.join("\n"))
}
