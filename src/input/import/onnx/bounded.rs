//! Operators that tract may infer shapes with, but not run at will.
//!
//! While it infers, tract runs every operator whose inputs it knows, and allocates whatever comes out: a few bytes that
//! say `ConstantOfShape([2^40])` would end the program, since a failed allocation cannot be caught.

use tract_onnx::tract_hir::internal::*;

use super::weights::VALUES_KEPT;
use super::{isolated, quiet};

/// Operators that shapes are computed with; only these are run, on few elements.
const SHAPE_ARITHMETIC: &str = "Abs Add And Cast Ceil Concat Constant ConstantOfShape Div Equal Expand Flatten Floor Gather \
    Greater GreaterOrEqual Identity Less LessOrEqual Max Min Mod Mul Neg NonZero Not Or Pow Range \
    ReduceMax ReduceMin ReduceProd ReduceSum Reshape ScatterND Shape Size Slice Split Sqrt Squeeze \
    Sub Tile Transpose Unsqueeze Where";

/// Operators whose output can be larger than all inputs: run only where inference bounds it first.
const GROWING: &str = "ConstantOfShape Expand Range Tile";

/// An operator within bounds.
#[derive(Clone, Debug)]
pub(super) struct Bounded {
    /// Its position in the graph.
    pub position: usize,
    /// The operator's name in ONNX.
    pub operator: String,
    /// What tract made of it.
    pub inner: Box<dyn InferenceOp>,
    /// How often it was asked.
    pub visits: usize,
}

/// Inference settles after a few visits a node; in contradictory graphs it may take very many.
const MOST_VISITS: usize = 64;

impl PartialEq for Bounded {
    fn eq(&self, _: &Self) -> bool {
        false
    }
}

impl Eq for Bounded {}

impl Op for Bounded {
    fn name(&self) -> StaticName {
        self.inner.name()
    }

    not_a_typed_op!();
}

impl EvalOp for Bounded {
    not_out_of_plan!();
}

type Facts = TVec<InferenceFact>;

impl InferenceOp for Bounded {
    fn infer(
        &mut self,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
        observed: TVec<&InferenceFact>,
    ) -> TractResult<(Facts, Facts, Facts)> {
        self.visits += 1;
        isolated::tell(self.position);
        if self.visits > MOST_VISITS {
            bail!("shapes that do not settle, as if two nodes contradicted each other");
        }
        self.refuse_unlikely_shapes(&inputs, &outputs)?;
        let inner = &mut self.inner;
        let facts = quiet::catch(|| inner.infer_facts(inputs, outputs, observed))
            .map_err(|panic| format_err!("{panic}"))??;
        // All inputs of the graph have numbers for lengths. Anything else, such as the broadcast of 6 and 7, would grow
        // from node to node.
        let lengths = facts.1.iter().flat_map(|fact| fact.shape.dims());
        if lengths
            .filter_map(Factoid::concretize)
            .any(|length| length.to_i64().is_err())
        {
            bail!("a length that is not known before the model runs, or two that do not agree");
        }
        if !self.may_run(&facts.0, &facts.1) {
            return Ok(facts);
        }
        // Running infers once more, on facts that are now known to be small; shape arithmetic is cheap.
        let inner = &mut self.inner;
        let (inputs, outputs, observed) = (&facts.0, &facts.1, &facts.2);
        let run = quiet::catch(|| {
            inner.infer(
                inputs.iter().collect(),
                outputs.iter().collect(),
                observed.iter().collect(),
            )
        });
        // What cannot be run keeps the facts that are known without.
        Ok(run.ok().and_then(Result::ok).unwrap_or(facts))
    }

    fn infer_facts(
        &mut self,
        inputs: TVec<&InferenceFact>,
        outputs: TVec<&InferenceFact>,
        observed: TVec<&InferenceFact>,
    ) -> TractResult<(Facts, Facts, Facts)> {
        self.inner.infer_facts(inputs, outputs, observed)
    }

    fn observe_outlets(&self, model: &InferenceModel, node: &InferenceNode) -> TractResult<Vec<OutletId>> {
        self.inner.observe_outlets(model, node)
    }

    fn nboutputs(&self) -> TractResult<usize> {
        self.inner.nboutputs()
    }

    fn as_op(&self) -> &dyn Op {
        self
    }

    fn as_op_mut(&mut self) -> &mut dyn Op {
        self
    }
}

impl Bounded {
    fn may_run(&self, inputs: &Facts, outputs: &Facts) -> bool {
        let operator = self.operator.as_str();
        is_among(SHAPE_ARITHMETIC, operator)
            && inputs.iter().all(|fact| fact.value.is_concrete())
            && inputs
                .iter()
                .all(|fact| elements(fact).is_some_and(|count| count <= VALUES_KEPT))
            && outputs.iter().all(|fact| match elements(fact) {
                Some(count) => count <= VALUES_KEPT,
                None => !is_among(GROWING, operator),
            })
    }

    /// Rules that make a length the rank of another tensor would allocate a shape as long; and tract reads lengths as
    /// 32-bit numbers, of which it would keep the lower half.
    fn refuse_unlikely_shapes(
        &self,
        inputs: &TVec<&InferenceFact>,
        outputs: &TVec<&InferenceFact>,
    ) -> TractResult<()> {
        let shapes: &[&InferenceFact] = match self.operator.as_str() {
            "ConstantOfShape" => inputs,
            "Expand" | "Pad" | "Reshape" | "Resize" | "Tile" | "Upsample" => {
                inputs.get(1..).unwrap_or_default()
            }
            "NonZero" | "Shape" => outputs,
            _ => &[],
        };
        for shape in shapes {
            let length = shape
                .shape
                .dim(0)
                .and_then(|dim| dim.concretize()?.to_usize().ok());
            if let Some(length) = length.filter(|length| *length as f64 > VALUES_KEPT) {
                bail!("a shape of {length} axes");
            }
            let value = shape
                .value
                .concretize()
                .filter(|value| value.len() as f64 <= VALUES_KEPT);
            let lengths = value.and_then(|value| value.cast_to::<i64>().ok().map(|cast| cast.into_owned()));
            let lengths = lengths
                .as_ref()
                .and_then(|lengths| lengths.to_plain_array_view::<i64>().ok());
            if let Some(length) = lengths.iter().flatten().find(|length| **length > i32::MAX.into()) {
                bail!("a length of {length}, beyond 2^31");
            }
        }
        Ok(())
    }
}

fn is_among(operators: &str, operator: &str) -> bool {
    operators.split(' ').any(|name| name == operator)
}

/// Number of elements, where the shape is known.
fn elements(fact: &InferenceFact) -> Option<f64> {
    let dims = fact.shape.as_concrete_finite().ok()??;
    Some(dims.iter().map(|&dim| dim as f64).product())
}
