//! A network as a Graphviz graph: a box a layer, a cluster a stage.

use super::format::shorten;
use super::palette::Colors;
use super::picture::Picture;
use crate::model::fault::is_obeyed;
use crate::model::instance::Instance;
use crate::model::network::Layer;
use crate::problem::plan::Plan;

/// A drawing for Graphviz (`dot -Tsvg`), coloured by stage where there is a plan.
///
/// Boxes are layers, with times and sizes as tooltips; edges are tensors, dashed ones go from stage to stage. Nodes are
/// numbered by the file order of the layers. Language: E. Gansner, E. Koutsofios and S. North, *Drawing graphs with
/// dot*, 2015.
pub fn dot(instance: &Instance, plan: Option<&Plan>) -> String {
    let picture = Picture::new(instance, plan);
    let mut out = format!("digraph {} {{\n", quote(&instance.name));
    out += "  node [shape=box, style=filled, fontname=\"sans-serif\"];\n";
    out += "  edge [color=\"#666666\"];\n";
    let layers = &instance.network.layers;
    let stages = plan.map_or(&[][..], |plan| &plan.stages);
    for stage in stages {
        let colors = Colors::stage(stage.index);
        out += &format!("  subgraph cluster_{} {{\n", stage.index);
        out += &format!("    label={};\n", quote(&picture.stage_label(stage)));
        out += &format!(
            "    style=filled; color=\"{}\"; fillcolor=\"{}\";\n",
            colors.line, colors.pale
        );
        for (at, layer) in layers.iter().enumerate() {
            if picture.stage(layer) == Some(stage.index) {
                out += &format!("    {}\n", node(&picture, at, layer));
            }
        }
        out += "  }\n";
    }
    for (at, layer) in layers.iter().enumerate() {
        if picture.stage(layer).is_none() {
            out += &format!("  {}\n", node(&picture, at, layer));
        }
    }
    for tensor in &instance.network.tensors {
        let tooltip = quote(&picture.tensor_tooltip(tensor));
        for &to in &tensor.consumers {
            let emphasis = match picture.crosses(tensor.producer, to) {
                true => ", style=dashed, penwidth=2, color=black",
                false => "",
            };
            out += &format!("  n{} -> n{to} [tooltip={tooltip}{emphasis}];\n", tensor.producer);
        }
    }
    out + "}\n"
}

fn node(picture: &Picture, at: usize, layer: &Layer) -> String {
    /// Longer names make boxes that push everything else apart; the tooltip has them whole.
    const MOST: usize = 32;
    let label = quote(&shorten(&layer.id, MOST));
    let tooltip = quote(&picture.layer_tooltip(layer));
    let own = picture.stage(layer).map_or_else(Colors::none, Colors::stage);
    let fill = match picture.other_stage(layer).map(Colors::stage) {
        // Half a box for each stage.
        Some(other) => format!("style=striped, fillcolor=\"{};0.5:{}\"", own.fill, other.fill),
        None => format!("fillcolor=\"{}\"", own.fill),
    };
    format!(
        "n{at} [label={label}, tooltip={tooltip}, {fill}, color=\"{}\"];",
        own.line
    )
}

/// A quoted string of the language. Backslashes are doubled, since labels read them as escapes.
fn quote(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if is_obeyed(c) => c.escape_default().for_each(|c| match c {
                '\\' => out.push_str("\\\\"),
                c => out.push(c),
            }),
            // HTML entities are read even in quoted strings.
            '&' => out.push_str("&amp;"),
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn quotes_backslashes_and_entities_are_escaped() {
        assert_eq!(super::quote("a\"b\\N&lt;\n"), r#""a\"b\\N&amp;lt;\n""#);
    }
}
