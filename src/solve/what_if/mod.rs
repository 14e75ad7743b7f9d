//! How the optimum changes with a number of the problem: bandwidth, memory, stages, devices, tokens that plans have room for.
#![doc = include_str!("../../../formulations/what_if.md")]

mod answer;
mod better;
mod cell;
mod curve;
mod parameter;
mod prover;

use std::time::Duration;

pub use answer::{Answer, AnswerCurve, AnswerPoint, Kind, Segment};
pub use better::{Better, Gain, Stretch};
#[doc(hidden)]
pub use cell::{Cell, Point};
#[doc(hidden)]
pub use curve::Curve;
pub use parameter::Parameter;
#[doc(hidden)]
pub use parameter::{Easier, Law};

use crate::model::instance::Instance;
use crate::model::options::PipelineOptions;
use crate::model::settings::Settings;
use crate::problem::control::Control;
use crate::solve::error::Error;
use crate::solve::posed::refuse_most_tokens;
use curve::CurveSearch;
use prover::Prover;

/// What is varied, and how closely the answer is wanted.
#[derive(Clone, Debug)]
pub struct Question {
    /// What is varied.
    pub parameter: Parameter,
    /// The smallest value.
    pub from: f64,
    /// The largest value.
    pub to: f64,
    /// The least and the most stages, where every number in between makes a curve.
    pub stages: Option<[usize; 2]>,
    /// How much longer than the best plan the best known one may take anywhere, as a part of that.
    pub tolerance: f64,
    /// How long one search may take.
    pub point_limit: Option<Duration>,
}

impl Question {
    fn easier(&self) -> Easier {
        self.parameter.easier([self.from, self.to])
    }
}

/// How far an answer has come.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The most stages of the curve in work, where these make curves.
    pub stages: Option<usize>,
    /// Searches that were run.
    pub searches: usize,
    /// How much longer than the best plan the best known one of this curve may take anywhere, as a part of that.
    pub gap: f64,
}

/// The optimum over a range, as closely as asked, or as far as time allows.
///
/// * `options`: the problem; what they say of the parameter is replaced;
/// * `show`: called after every search.
///
/// # Errors
///
/// [`Error`].
#[doc(hidden)]
pub fn ask(
    instance: &Instance,
    options: &PipelineOptions,
    question: &Question,
    control: &Control,
    show: &dyn Fn(&Progress),
) -> Result<Answer, Error> {
    let all = options.clone().or(&instance.pipeline);
    let mut prover = Prover::new(instance, options, question, control);
    let easier = question.easier();
    let mut curves: Vec<Curve> = Vec::new();
    let mut last = None;
    for stages in stages_of(question) {
        let ends = [
            prover.settings(stages, easier.across(question.from))?,
            prover.settings(stages, easier.across(question.to))?,
        ];
        refuse_most_tokens(&ends[0], "what-if")?;
        let law = Law::new(question.parameter, instance, &all, [&ends[0], &ends[1]])?;
        let [_, settings] = ends;
        // Exactly so many stages are no plans of one more, and virtual ones lie elsewhere.
        let is_apart = settings.all_stages || settings.may_have_virtual_stages();
        let above = curves.last().filter(|_| !is_apart);
        let search = CurveSearch {
            prover: &mut prover,
            question,
            above,
            curve: Curve::new(stages, law, question),
            asked: 0,
        };
        let curve = search.run(&|searches, curve| {
            show(&Progress {
                stages,
                searches,
                gap: curve.gap(),
            });
        })?;
        curves.push(curve);
        last = Some(settings);
    }
    let settings = match last {
        Some(settings) => settings,
        None => Settings::resolve(instance, options)?,
    };
    // By stages, as they are read.
    curves.reverse();
    Ok(Answer::new(instance, &settings, question, curves, prover))
}

/// The most stages of every curve, the most first: bounds of more stages hold for fewer.
fn stages_of(question: &Question) -> Vec<Option<usize>> {
    match question.stages {
        None => vec![None],
        Some([least, most]) => (least..=most).rev().map(Some).collect(),
    }
}
