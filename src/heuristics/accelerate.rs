//! Hugging Face Accelerate: `device_map="balanced"`, which is what `"auto"` means today.
//!
//! Source: huggingface/accelerate, src/accelerate/utils/modeling.py: `get_balanced_memory` and `infer_auto_device_map`. Every device but
//! the last may take the q-th part of all weights and a buffer of 1.25 times the mean module, or the largest module that may not be
//! split; modules fill them in the order in which the model declares them. Where something may have to be offloaded, the first device
//! keeps room for the largest module. Memory for activations is not counted.
//!
//! The blocks of a stack are modules that may not be split, and each other item is one. The model's order is that of the file. What would go
//! to the CPU is no plan.

use super::frameworks::{block_of, cut_list, keep_passes_together};
use super::{Effort, Heuristic, MustStop, Run, orders};
use crate::problem::{Assignment, Problem};

/// The registry's entry.
pub(crate) const METHOD: Heuristic = Heuristic {
    name: "accelerate-balanced",
    summary: "devices filled in turn with an equal part of the weights and a little more",
    source: "Hugging Face Accelerate: `get_balanced_memory` and `infer_auto_device_map` of src/accelerate/utils/modeling.py",
    exact_for: "nothing beyond one stage: the first devices take more than their part",
    effort: Effort::Baseline,
    run: Run::Homogeneous(keep_passes_together, run),
};

fn run(problem: &Problem, _seed: u64, _must_stop: MustStop<'_>) -> Option<Assignment> {
    let modules = modules(problem);
    let sizes: Vec<u64> = modules.iter().map(|module| module.bytes).collect();
    let largest_whole = modules
        .iter()
        .filter(|module| module.is_block)
        .map(|module| module.bytes);
    let limit = problem.settings.memory_limit.unwrap_or(u64::MAX);
    let limits = balanced_memory(
        &sizes,
        largest_whole.max().unwrap_or(0),
        &vec![limit; problem.stages()],
    );
    let devices = device_map(&sizes, &limits)?;
    let mut ends = vec![0; problem.stages()];
    for (device, module) in devices.iter().zip(&modules) {
        ends[*device..].iter_mut().for_each(|end| *end = module.end);
    }
    cut_list(problem, &ends)
}

/// A module that is not split.
struct Module {
    bytes: u64,
    is_block: bool,
    /// Where it ends in the order of the items.
    end: usize,
}

fn modules(problem: &Problem) -> Vec<Module> {
    let mut modules: Vec<Module> = Vec::new();
    let mut open = None;
    for (position, item) in orders::by_number(problem).into_iter().enumerate() {
        let block = block_of(problem, item);
        let bytes = problem.items[item].parameter_bytes;
        match modules.last_mut() {
            Some(module) if block.is_some() && block == open => {
                module.bytes += bytes;
                module.end = position + 1;
            }
            _ => modules.push(Module {
                bytes,
                is_block: block.is_some(),
                end: position + 1,
            }),
        }
        open = block;
    }
    modules
}

/// What each device may take, where modules of up to `largest_whole` bytes may not be split (0 where all may be).
pub fn balanced_memory(sizes: &[u64], largest_whole: u64, limits: &[u64]) -> Vec<u64> {
    let all: u64 = sizes.iter().sum();
    let modules = sizes.iter().filter(|&&size| size > 0).count() as u64;
    let buffer = largest_whole.max(all / modules.max(1));
    // Rounded down, as Python's `int` does.
    let each = all / limits.len() as u64 + buffer + buffer / 4;
    let mut given = limits.to_vec();
    let last = given.len() - 1;
    given[..last]
        .iter_mut()
        .for_each(|limit| *limit = each.min(*limit));
    given
}

/// The device of every module, or `None` where some go to the CPU.
pub fn device_map(sizes: &[u64], limits: &[u64]) -> Option<Vec<usize>> {
    let (mut device, mut used) = (0, 0u64);
    let mut devices = Vec::with_capacity(sizes.len());
    // The largest module that is known of, and how many of that size are still to come.
    let mut largest = sizes.iter().copied().max()?;
    let mut left = sizes.iter().filter(|&&size| size == largest).count();
    for (position, &size) in sizes.iter().enumerate() {
        left -= usize::from(size == largest);
        if left == 0 {
            let rest = &sizes[position + 1..];
            largest = rest.iter().copied().max().unwrap_or(0);
            left = rest.iter().filter(|&&size| size == largest).count();
        }
        loop {
            let reserved = if device == 0 { largest } else { 0 };
            let limit = limits.get(device)?;
            if used.saturating_add(size).saturating_add(reserved) <= *limit {
                break;
            }
            (device, used) = (device + 1, 0);
        }
        used += size;
        devices.push(device);
    }
    Some(devices)
}
