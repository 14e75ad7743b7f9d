//! What DeepSpeed's flops profiler prints in detail: microsoft/DeepSpeed, `deepspeed/profiling/flops_profiler`; the model as a tree of modules,
//! each with parameters, multiply-accumulates and the latency of its forward pass.
//!
//! Layers are the modules that lists and sequences of modules hold, and what stands beside these. Latencies are measured; passes back are not, and
//! are taken as long as the whole model's are, against its forward pass, or twice as long.

use super::{Imported, Source, starts_with};
use crate::model::fault::{Fault, FaultKind};
use crate::model::precision::Precision;
use crate::model::spec::{InstanceSpec, LayerSpec, NetworkSpec, TensorSpec, WorkSpec};
use crate::model::words::words;

/// The heading of the tree; what runs on other devices says so behind it.
const HEADING: &str = "Detailed Profile per";

/// Bytes of a parameter: the profile does not say, and PyTorch's default is fp32.
const BYTES: f64 = 4.0;

/// Modules deeper than that are none that PyTorch could run.
const DEEPEST: usize = 256;

/// A module.
#[derive(Default)]
struct Module {
    name: String,
    class: String,
    line: usize,
    numbers: Option<Numbers>,
    children: Vec<Module>,
}

#[derive(Clone, Copy, Default)]
struct Numbers {
    parameters: f64,
    macs: f64,
    forward_ms: f64,
}

/// Whether a text has the heading of the tree.
pub(super) fn detect(source: &Source) -> bool {
    !starts_with(source, b'{') && source.text().is_ok_and(|text| text.contains(HEADING))
}

/// Reads what is printed, with whatever a log has around it.
pub(super) fn read(source: &Source) -> Imported {
    let text = source.text()?;
    let ratio = backward_ratio(text);
    let root = tree(text)?;
    let mut layers = Vec::new();
    cut(&root, &mut String::new(), &mut layers);
    if layers.is_empty() {
        let kind = FaultKind::Missing {
            what: "module with a latency".into(),
            expected: "the tree of modules with params, MACs and fwd latency".into(),
            remedy: "let the profiler print with `detailed=True` and `module_depth=-1`".into(),
        };
        return Err(vec![Fault::new(format!("line {}", root.line), kind)]);
    }
    let tensors = layers.windows(2).map(|pair| TensorSpec {
        producer: pair[0].0.clone(),
        consumers: vec![pair[1].0.clone()],
        ..TensorSpec::default()
    });
    let tensors = tensors.collect();
    let layers = layers
        .iter()
        .map(|(id, module, numbers)| layer(id, module, *numbers, ratio.unwrap_or(2.0)));
    let how = match ratio {
        Some(ratio) => format!("{ratio:.3} times its forward pass, as the whole model's is"),
        None => "twice its forward pass, since the profile has no `bwd latency`".into(),
    };
    let notes = vec![
        words!("the backward pass of a layer is taken as {}", how),
        "the profile does not say sizes: parameters have 4 bytes, stash and tensors none, and layers are a chain in the order in which they are listed".into(),
    ];
    let spec = InstanceSpec {
        network: NetworkSpec {
            precision: Some(Precision::Fp32),
            layers: layers.collect(),
            tensors,
            ..NetworkSpec::default()
        },
        ..InstanceSpec::default()
    };
    Ok((spec, notes))
}

/// How much longer the whole backward pass took, where the summary says so.
fn backward_ratio(text: &str) -> Option<f64> {
    let latency = |label: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(label))?;
        quantity(line.split_once(':')?.1)
    };
    let ratio = latency("bwd latency:")? / latency("fwd latency:")?;
    (ratio.is_finite() && ratio > 0.0).then_some(ratio)
}

/// A number with its unit, in units: `12.6 M`, `128.87 GMACs`, `833.75 us`; times in ms.
fn quantity(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let number: f64 = words.next()?.parse().ok()?;
    let unit = words.next().unwrap_or_default();
    let scale = match unit.trim_end_matches("MACs") {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" | "B" => 1e9,
        "T" => 1e12,
        "us" => 1e-3,
        "ms" => 1.0,
        "s" => 1e3,
        _ => return None,
    };
    (number.is_finite() && number >= 0.0).then_some(number * scale)
}

/// `12.6 M = 3.75% Params, 128.87 GMACs = 4.10% MACs, 1.29 ms = 1.69% latency, ...`, or with commas in place of equal signs, as older releases print.
fn numbers(text: &str) -> Option<Numbers> {
    let pieces: Vec<&str> = text.split([',', '=']).map(str::trim).collect();
    let before = |word: &str| {
        let at = pieces
            .iter()
            .position(|piece| piece.ends_with(word) && piece.contains('%'))?;
        quantity(pieces[at.checked_sub(1)?])
    };
    Some(Numbers {
        parameters: before("Params")?,
        macs: before("MACs")?,
        forward_ms: before("latency")?,
    })
}

/// The tree under the heading.
fn tree(text: &str) -> Result<Module, Vec<Fault>> {
    let mut lines = text
        .lines()
        .enumerate()
        .skip_while(|(_, line)| !line.contains(HEADING));
    lines.next();
    let mut open: Vec<Module> = Vec::new();
    let mut last = 1;
    for (at, line) in lines {
        last = at + 1;
        let line = line.trim();
        if line.starts_with(')') {
            let Some(done) = open.pop() else { break };
            match open.last_mut() {
                None => return Ok(done),
                Some(parent) => parent.children.push(done),
            }
        } else if let Some((head, rest)) = head(line, open.is_empty()) {
            let module = Module {
                line: last,
                numbers: numbers(rest),
                ..head
            };
            let is_whole = rest.ends_with(')') && balanced(rest);
            if !is_whole {
                if open.len() == DEEPEST {
                    return Err(vec![unfinished(last, "modules deeper than 256")]);
                }
                open.push(module);
                continue;
            }
            match open.last_mut() {
                Some(parent) => parent.children.push(module),
                None => return Ok(module),
            }
        } else if let (Some(module), Some(own)) = (open.last_mut(), numbers(line)) {
            module.numbers.get_or_insert(own);
        }
    }
    Err(vec![unfinished(last, "the end of the text within a module")])
}

fn unfinished(line: usize, found: &str) -> Fault {
    let kind = FaultKind::Syntax {
        found: found.into(),
        expected: "a tree of modules, each closed by `)`".into(),
    };
    Fault::new(format!("line {line}"), kind)
}

/// Whether what follows an opening bracket closes it at its end.
fn balanced(rest: &str) -> bool {
    let deep = rest.chars().fold(1_i64, |deep, c| match c {
        '(' => deep + 1,
        ')' => deep - 1,
        _ => deep,
    });
    deep == 0
}

/// `(name): Class(` or, at the top, `Class(`, and what follows.
fn head(line: &str, is_top: bool) -> Option<(Module, &str)> {
    let (name, rest) = match line.strip_prefix('(').and_then(|rest| rest.split_once("): ")) {
        Some((name, rest)) => (name, rest),
        None if is_top => ("", line),
        None => return None,
    };
    let (class, rest) = rest.split_once('(')?;
    let is_name = !class.is_empty() && class.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.');
    is_name.then(|| {
        let module = Module {
            name: name.to_owned(),
            class: class.to_owned(),
            ..Module::default()
        };
        (module, rest)
    })
}

/// Whether a module only holds others, a list of blocks among them.
fn is_list(module: &Module) -> bool {
    matches!(module.class.as_str(), "ModuleList" | "Sequential" | "ModuleDict")
}

fn holds_list(module: &Module) -> bool {
    module
        .children
        .iter()
        .any(|child| child.class == "ModuleList" || holds_list(child))
}

/// Layers with their modules and numbers, in the order of the tree.
fn cut<'a>(module: &'a Module, path: &mut String, layers: &mut Vec<(String, &'a Module, Numbers)>) {
    for child in &module.children {
        let before = path.len();
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(&child.name);
        match child.numbers {
            _ if is_list(child) || holds_list(child) => cut(child, path, layers),
            Some(numbers) if numbers.forward_ms > 0.0 => layers.push((path.clone(), child, numbers)),
            _ => {}
        }
        path.truncate(before);
    }
    // A model of one module.
    if let (true, Some(numbers)) = (module.children.is_empty() && path.is_empty(), module.numbers) {
        layers.push((module.class.clone(), module, numbers));
    }
}

fn layer(id: &str, module: &Module, numbers: Numbers, ratio: f64) -> LayerSpec {
    LayerSpec {
        id: id.to_owned(),
        operator: Some(module.class.clone()),
        forward_ms: Some(numbers.forward_ms),
        backward_ms: Some(ratio * numbers.forward_ms),
        parameter_bytes: BYTES * numbers.parameters.round(),
        work: Some(WorkSpec {
            forward_flops: 2.0 * numbers.macs,
            backward_flops: 4.0 * numbers.macs,
            ..WorkSpec::default()
        }),
        ..LayerSpec::default()
    }
}
