//! Shapes of what tract does not know, or does not know for a whole network: nodes that run bodies, and fused operators.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use super::flat::{CARRY, GIVEN, OTHERWISE, SLICE, STATES};
use super::fused::Call;

/// What runs bodies, and what it gives them.
pub(super) const RULED: &[&str] = &["If", "Loop", "Scan", CARRY, SLICE];

/// An operator whose rule is ours.
#[derive(Clone, Debug)]
struct Ruled {
    node: NodeProto,
}

/// Makes the operator of a node.
pub(super) fn ruled(
    _context: &ParsingContext,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    Ok((Box::new(Ruled { node: node.clone() }), Vec::new()))
}

/// The value of a tensor of one integer.
pub(super) fn one_integer(value: &Tensor) -> Option<i64> {
    if value.len() != 1 || value.datum_type().is_float() {
        return None;
    }
    let cast = value.cast_to::<i64>().ok()?;
    cast.to_plain_array_view::<i64>().ok()?.first().copied()
}

impl PartialEq for Ruled {
    fn eq(&self, _: &Self) -> bool {
        false
    }
}

impl Eq for Ruled {}

impl Op for Ruled {
    fn name(&self) -> StaticName {
        "ruled".into()
    }

    not_a_typed_op!();
}

impl EvalOp for Ruled {
    not_out_of_plan!();
}

type Facts = TVec<InferenceFact>;

impl InferenceOp for Ruled {
    fn infer_facts(
        &mut self,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
        observed: TVec<&InferenceFact>,
    ) -> TractResult<(Facts, Facts, Facts)> {
        let mut given = inputs.iter().copied();
        let present = self.node.input.iter().map(|name| !name.is_empty());
        let facts = Given {
            node: &self.node,
            inputs: present.map(|is| is.then(|| given.next()).flatten()).collect(),
        };
        let mut made = facts.outputs()?.into_iter();
        let mut before = outputs.iter().copied();
        let mut known = Facts::new();
        for name in &self.node.output {
            let rule = made.next().flatten();
            if !name.is_empty() {
                let before = before.next().cloned().unwrap_or_default();
                known.push(rule.unwrap_or(before));
            }
        }
        let all = |facts: TVec<&InferenceFact>| facts.into_iter().cloned().collect();
        Ok((all(inputs), known, all(observed)))
    }

    fn nboutputs(&self) -> TractResult<usize> {
        Ok(self.node.output.iter().filter(|name| !name.is_empty()).count())
    }

    fn as_op(&self) -> &dyn Op {
        self
    }

    fn as_op_mut(&mut self) -> &mut dyn Op {
        self
    }
}

/// What is known of a node's inputs; absent ones are none.
struct Given<'a> {
    node: &'a NodeProto,
    inputs: Vec<Option<&'a InferenceFact>>,
}

impl Given<'_> {
    /// Facts of the outputs, as far as they are known.
    fn outputs(&self) -> TractResult<Vec<Option<InferenceFact>>> {
        match self.node.op_type.as_str() {
            "If" => Ok(self.taken()),
            "Loop" | "Scan" => self.of_trips(),
            CARRY => Ok(vec![self.shape(0)]),
            SLICE => Ok(vec![self.slice()]),
            _ => Ok(self.fused()),
        }
    }

    fn fact(&self, place: usize) -> Option<&InferenceFact> {
        *self.inputs.get(place)?
    }

    fn number(&self, name: &str) -> Option<i64> {
        let attribute = self
            .node
            .attribute
            .iter()
            .find(|attribute| attribute.name == name)?;
        Some(attribute.i)
    }

    fn value(&self, place: usize) -> Option<i64> {
        one_integer(&*self.fact(place)?.value.concretize()?)
    }

    /// Type and lengths of an input, without its value, where both are known.
    fn shape(&self, place: usize) -> Option<InferenceFact> {
        let (datum_type, dims) = self.sizes(place)?;
        Some(InferenceFact::dt_shape(datum_type, dims))
    }

    fn sizes(&self, place: usize) -> Option<(DatumType, Vec<usize>)> {
        let fact = self.fact(place)?;
        let dims = fact.shape.as_concrete_finite().ok()??.to_vec();
        Some((fact.datum_type.concretize()?, dims))
    }

    /// Outputs of the branch that is taken, or the larger of both, one by one.
    fn taken(&self) -> Vec<Option<InferenceFact>> {
        let count = self.inputs.len().saturating_sub(1) / 2;
        let taken = self.number(GIVEN).or_else(|| self.value(0));
        let size = |place: usize| {
            self.sizes(place)
                .map(|(_, dims)| dims.iter().map(|&dim| dim as f64).product::<f64>())
        };
        let larger = |output: usize| {
            let [then, other] = [1 + output, 1 + count + output];
            match taken {
                Some(0) => other,
                None if size(other) > size(then) => other,
                _ => then,
            }
        };
        (0..count).map(|output| self.shape(larger(output))).collect()
    }

    /// States keep their shape; what trips add has as many parts as there are trips.
    fn of_trips(&self) -> TractResult<Vec<Option<InferenceFact>>> {
        let states = self
            .number(STATES)
            .and_then(|states| usize::try_from(states).ok());
        let states = states.filter(|states| 2 * states < self.inputs.len());
        let Some(states) = states else {
            bail!("a body that does not fit its node");
        };
        let mut outputs = Vec::new();
        for state in 0..states {
            let (begin, end) = (self.sizes(1 + state), self.sizes(1 + states + state));
            if let (Some((_, begin)), Some((_, end))) = (&begin, &end)
                && begin != end
            {
                bail!(
                    "a tensor of lengths {begin:?} that a trip makes one of {end:?}: only loops that keep shapes are read"
                );
            }
            outputs.push(self.shape(1 + states + state));
        }
        let trips = self.trips();
        let axes = self
            .node
            .attribute
            .iter()
            .find(|attribute| attribute.name == "scan_output_axes");
        for (place, part) in (1 + 2 * states..self.inputs.len()).enumerate() {
            let axis = axes.and_then(|axes| axes.ints.get(place)).copied().unwrap_or(0);
            let stacked = || {
                let (datum_type, mut dims) = self.sizes(part)?;
                let axis = from_end(axis, dims.len() + 1)?;
                dims.insert(axis, usize::try_from(trips?).ok()?);
                Some(InferenceFact::dt_shape(datum_type, dims))
            };
            outputs.push(stacked());
        }
        Ok(outputs)
    }

    /// How often the body runs.
    fn trips(&self) -> Option<i64> {
        if self.node.op_type == "Scan" {
            let (_, dims) = self.sizes(0)?;
            let axis = from_end(self.number("axis")?, dims.len())?;
            return dims.get(axis).map(|&trips| trips as i64);
        }
        let known = self.number(GIVEN).or_else(|| self.value(0));
        known.or_else(|| self.number(OTHERWISE))
    }

    /// An input without one of its axes.
    fn slice(&self) -> Option<InferenceFact> {
        let (datum_type, mut dims) = self.sizes(0)?;
        let axis = from_end(self.number("axis")?, dims.len())?;
        if axis >= dims.len() {
            return None;
        }
        dims.remove(axis);
        Some(InferenceFact::dt_shape(datum_type, dims))
    }

    fn fused(&self) -> Vec<Option<InferenceFact>> {
        let sizes: Vec<Option<(DatumType, Vec<usize>)>> =
            (0..self.inputs.len()).map(|place| self.sizes(place)).collect();
        // Of an input that is there and not known nothing follows.
        let is_known =
            |(place, fact): (usize, &Option<&InferenceFact>)| fact.is_none() || sizes[place].is_some();
        let (Some(Some((datum_type, _))), true) =
            (sizes.first(), self.inputs.iter().enumerate().all(is_known))
        else {
            return Vec::new();
        };
        let call = Call {
            node: self.node,
            inputs: sizes
                .iter()
                .map(|size| Some(size.as_ref()?.1.as_slice()))
                .collect(),
            values: (0..self.inputs.len()).map(|place| self.value(place)).collect(),
        };
        let fact = |dims| InferenceFact::dt_shape(*datum_type, dims);
        call.outputs().into_iter().map(|dims| dims.map(fact)).collect()
    }
}

/// An axis that may be counted from the end; none beyond the rank.
fn from_end(axis: i64, rank: usize) -> Option<usize> {
    let axis = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(axis).ok().filter(|&axis| axis < rank)
}
