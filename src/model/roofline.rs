//! Rooflines: how long work takes at the rates of a device, and which bytes an operator moves.
//!
//! A pass of an operator takes as long as its arithmetic or its memory traffic, whichever is longer (S. Williams, A. Waterman,
//! D. Patterson, *Roofline: an insightful visual performance model for multicore architectures*, CACM 52(4), 2009). Traffic is
//! inputs, outputs **and parameters**, each once a pass: with one token to compute, the parameters are nearly all of it.
//! `docs/rooflines.md` has calculations by hand that the tests repeat.

use crate::model::spec::{KernelSpec, TimesSpec, WorkSpec};

/// Bytes that an operator reads and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Traffic {
    /// What it reads of other operators, and of caches.
    pub inputs: f64,
    /// Its parameters.
    pub parameters: f64,
    /// What it writes.
    pub outputs: f64,
}

impl Traffic {
    /// The forward pass.
    pub fn forward(&self) -> f64 {
        self.inputs + self.parameters + self.outputs
    }

    /// The gradient of one operand of a product, which is a product as large: of the other operand and the gradient of the output.
    pub fn of_gradient(&self) -> f64 {
        self.forward()
    }

    /// The backward pass of any other operator: it reads the gradient of the output, what was kept of the forward pass and the
    /// parameters, and writes gradients.
    pub fn backward(&self, kept: f64, gradients: f64) -> f64 {
        self.outputs + kept + self.parameters + gradients
    }

    /// Rows of a table that are looked up, which are all of the table that moves.
    pub fn look_up(rows: f64, outputs: f64) -> f64 {
        rows + outputs
    }

    /// The backward pass of it: rows of the gradient are read, added to and written.
    pub fn look_up_backward(rows: f64) -> f64 {
        3.0 * rows
    }
}

/// Numbers that an update of a parameter moves: it reads the parameter, its gradient and the two states of Adam, and writes all but
/// the gradient.
pub(crate) const UPDATE_NUMBERS: f64 = 7.0;

/// Operations of that update: three for the mean, four for the variance, five for the step (D. Kingma, J. Ba, *Adam: a method for
/// stochastic optimization*, ICLR 2015, algorithm 1).
pub(crate) const UPDATE_FLOPS: f64 = 12.0;

/// The times of work on a device with these rates, what takes turns one after the other.
///
/// The gradients of weights have a roofline of their own, which is no longer than that of the whole backward pass, since neither
/// their arithmetic nor their traffic is more. Those of the input take what is left: where one of the two is bound by arithmetic and
/// the other by memory, that is less than they would take alone.
pub(crate) fn times(work: &WorkSpec, flops_per_s: f64, memory_bytes_per_s: f64) -> TimesSpec {
    let ms = |[flops, bytes]: [f64; 2]| {
        let seconds = [flops / flops_per_s, bytes / memory_bytes_per_s];
        // NaN must reach the check of the caller, and f64::max would drop it.
        1e3 * if seconds[0] >= seconds[1] {
            seconds[0]
        } else {
            seconds[1]
        }
    };
    let in_turn = |of: fn(&KernelSpec) -> [f64; 2]| {
        let own: f64 = work.kernels.iter().map(|kernel| ms(of(kernel))).sum();
        own + ms(of(&work.rest()))
    };
    TimesSpec {
        forward_ms: Some(in_turn(KernelSpec::forward)),
        backward_ms: Some(in_turn(KernelSpec::backward)),
        weight_ms: Some(ms([work.weight_flops, work.weight_bytes])),
        ..TimesSpec::default()
    }
}

impl WorkSpec {
    /// Both passes as a whole.
    pub(crate) fn whole(&self) -> KernelSpec {
        KernelSpec {
            forward_flops: self.forward_flops,
            forward_bytes: self.forward_bytes,
            backward_flops: self.backward_flops,
            backward_bytes: self.backward_bytes,
        }
    }

    /// What the kernels leave of both passes, which take turns with it.
    pub(crate) fn rest(&self) -> KernelSpec {
        let whole = self.whole();
        let left = |of: fn(&KernelSpec) -> f64| {
            let left = of(&whole) - self.kernels.iter().map(of).sum::<f64>();
            // It may be a rounding below nothing, and f64::max would drop NaN.
            if left < 0.0 { 0.0 } else { left }
        };
        KernelSpec {
            forward_flops: left(|part| part.forward_flops),
            forward_bytes: left(|part| part.forward_bytes),
            backward_flops: left(|part| part.backward_flops),
            backward_bytes: left(|part| part.backward_bytes),
        }
    }
}

impl KernelSpec {
    /// Its fields by name.
    pub(crate) fn amounts(&self) -> [(&'static str, f64); 4] {
        [
            ("forward_flops", self.forward_flops),
            ("forward_bytes", self.forward_bytes),
            ("backward_flops", self.backward_flops),
            ("backward_bytes", self.backward_bytes),
        ]
    }

    /// FLOPs and bytes of the forward pass.
    pub(crate) fn forward(&self) -> [f64; 2] {
        [self.forward_flops, self.forward_bytes]
    }

    /// FLOPs and bytes of the backward pass.
    pub(crate) fn backward(&self) -> [f64; 2] {
        [self.backward_flops, self.backward_bytes]
    }
}

/// The same where each pass takes so long beside its work; a pass without work is none.
pub(crate) fn launched(times: TimesSpec, launch_ms: f64) -> TimesSpec {
    let with = |ms: Option<f64>| ms.map(|ms| if ms > 0.0 { ms + launch_ms } else { ms });
    TimesSpec {
        forward_ms: with(times.forward_ms),
        backward_ms: with(times.backward_ms),
        ..times
    }
}
