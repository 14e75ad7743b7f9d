//! Operators of what works on each token alone: an MLP, or experts.
//!
//! Experts of a layer lie on one stage, split by width among a tensor group as a dense MLP is, and shared out by its replicas where a plan says so: then each token's
//! vector goes to its experts and back. A token goes to its experts and none is dropped. FLOPs are those of the experts chosen. Bytes are those of the experts that a micro-batch touches: where each token chooses `k`
//! of `E` evenly and by itself, `n` tokens touch `E (1 - (1 - k/E)ⁿ)` of them on average: all but one in a million with a few thousand
//! tokens, and `k` with one.

use super::model::{Experts, FeedForward, Mlp};
use super::operator::{Operator, Parameters};
use super::parts::Scope;

/// The names of an MLP's operators.
struct Names {
    gate: &'static str,
    expand: &'static str,
    /// Of what stands between the matrices, without a gate and with one.
    between: [&'static str; 2],
    contract: &'static str,
}

const OWN: Names = Names {
    gate: "gate",
    expand: "expand",
    between: ["gelu", "swiglu"],
    contract: "contract",
};

const SHARED: Names = Names {
    gate: "shared_gate",
    expand: "shared_expand",
    between: ["shared_gelu", "shared_swiglu"],
    contract: "shared_contract",
};

/// How many there are of an MLP, how many of them a token uses, and how many a micro-batch.
struct Copies {
    held: f64,
    active: f64,
    read: f64,
}

const ONE: Copies = Copies {
    held: 1.0,
    active: 1.0,
    read: 1.0,
};

impl FeedForward {
    /// Its operators, and the names of those that are added to the state.
    pub(super) fn operators(&self, scope: &Scope, from: &'static str) -> (Vec<Operator>, Vec<&'static str>) {
        match self {
            Self::Dense(mlp) => (mlp.operators(scope, from, &OWN, &ONE), vec![OWN.contract]),
            Self::Experts(experts) => experts.operators(scope, from),
        }
    }
}

impl Mlp {
    fn operators(&self, scope: &Scope, from: &'static str, names: &Names, copies: &Copies) -> Vec<Operator> {
        let width = scope.width;
        let wide = scope.tokens() * copies.active * self.inner;
        let wide_bytes = scope.bytes(wide);
        let product = |name, reads, sides: [f64; 2]| {
            let numbers = sides[0] * sides[1] + if self.has_biases { sides[1] } else { 0.0 };
            Operator {
                parameters: Parameters {
                    held: copies.held * numbers,
                    read: copies.read * numbers,
                    active: copies.active * numbers,
                },
                ..scope.product_of(scope.tokens() * copies.active, name, reads, sides)
            }
        };
        let expand = product(names.expand, vec![from], [width, self.inner]);
        let mut operators = match self.is_gated {
            false => vec![
                expand,
                Operator::plain(names.between[0], vec![names.expand], 8.0 * wide, wide_bytes).split(),
            ],
            true => vec![
                product(names.gate, vec![from], [width, self.inner]),
                expand,
                Operator::plain(
                    names.between[1],
                    vec![names.gate, names.expand],
                    6.0 * wide,
                    wide_bytes,
                )
                .split(),
            ],
        };
        let between = names.between[usize::from(self.is_gated)];
        operators.push(Operator {
            // What the experts of a token return is weighed and added up where it is written.
            output_bytes: scope.state(),
            ..product(names.contract, vec![between], [self.inner, width]).reduced()
        });
        operators
    }
}

impl Experts {
    fn operators(&self, scope: &Scope, from: &'static str) -> (Vec<Operator>, Vec<&'static str>) {
        let router = scope
            .matrix("router", vec![from], [scope.width, self.count], false)
            .whole();
        let router = Operator {
            parameters: Parameters::all(router.parameters.held + self.router_vectors * self.count),
            ..router
        };
        let dispatch = Operator {
            copies: self.chosen,
            experts: self.count,
            ..Operator::sum("dispatch", vec![from, "router"], 0.0, self.chosen * scope.state())
        };
        let copies = Copies {
            held: self.count,
            active: self.chosen,
            read: touched(self.count, self.chosen, scope.tokens()),
        };
        let mut operators = vec![router, dispatch];
        let each = self.each.operators(scope, "dispatch", &OWN, &copies);
        operators.extend(each.into_iter().map(|op| Operator {
            experts: self.count,
            ..op
        }));
        let mut outputs = vec![OWN.contract];
        if let Some(shared) = &self.shared {
            operators.extend(shared.operators(scope, from, &SHARED, &ONE));
            outputs.push(SHARED.contract);
        }
        if self.has_shared_gate {
            operators.push(
                scope
                    .matrix("shared_weight", vec![from], [scope.width, 1.0], false)
                    .whole(),
            );
            outputs.push("shared_weight");
        }
        (operators, outputs)
    }
}

/// How many of `count` experts so many tokens go to, `chosen` each, on average.
pub(crate) fn touched(count: f64, chosen: f64, tokens: f64) -> f64 {
    // ln_1p keeps what few tokens touch, where the power is near 1.
    count * -(tokens * (-chosen / count).ln_1p()).exp_m1()
}
