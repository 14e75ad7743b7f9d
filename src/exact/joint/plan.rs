//! The plan of a cut and its order.

use super::{Found, Question, Weights};
use crate::exact;
use crate::model::instance::Instance;
use crate::model::options::{Objective, Schedule};
use crate::model::schedule::in_flight::most_in_flight;
use crate::model::settings::Settings;
use crate::model::units::ns_to_ms;
use crate::problem::Problem;
use crate::problem::plan::{Outcome, Plan, PlanOrder, Statistics, StoppedBy};
use crate::problem::virtual_stages::VirtualStages;
use crate::schedule::rules::Shape;

/// The plan of the cut and the order that [`best`](super::best) found; `None` without a cut. Its objective is the period, in which the order has
/// no part, and which is not what was looked for.
///
/// * `method`: its name.
pub fn plan(
    (instance, problem): (&Instance, &Problem),
    question: &Question,
    found: &Found,
    method: &str,
) -> Option<Plan> {
    let ((cut, chunks), order) = found.cut.as_ref().zip(found.of_cut.order.as_ref())?;
    let shape = Shape {
        devices: chunks.devices(),
        virtual_stages: question.virtual_stages,
        placement: question.placement,
        micro_batches: question.micro_batches,
    };
    let rounds = [shape.devices, shape.virtual_stages];
    let layout = VirtualStages::new(rounds, shape.placement, most_in_flight(order, &shape));
    let mut posed = problem.clone();
    posed.settings = settings(&problem.settings, question);
    // Without chunks a cut may have fewer devices than there are, so that the layout is none of the problem.
    posed.virtual_stages = Some(layout.clone()).filter(|_| !question.is_plain());
    let (bound, bound_ns) = exact::simple_bound(&posed);
    posed.virtual_stages = Some(layout);
    let outcome = Outcome {
        allocation: Some(cut.clone().into()),
        bound_ns,
        bound_source: bound.source,
        stopped_by: StoppedBy::Completed,
        statistics: Statistics::default(),
    };
    let share = match question.weights {
        Weights::Share(share) => Some(share),
        Weights::Whole | Weights::Told(_) => None,
    };
    let iteration_ms = ns_to_ms(found.of_cut.iteration_ns?);
    Some(Plan {
        order: Some(PlanOrder::new(order, share, iteration_ms)),
        ..Plan::new(instance, &posed, method, outcome)
    })
}

/// The problem that the plan states: its devices, and the memory that the order keeps.
fn settings(own: &Settings, question: &Question) -> Settings {
    Settings {
        objective: Objective::Period,
        stages: question.devices,
        devices: None,
        virtual_stages: question.virtual_stages,
        placement: question.placement,
        // The one that is for chunks however they lie, and as many micro-batches as there are: the order is another.
        schedule: match question.is_plain() {
            true => own.schedule,
            false => Schedule::Gpipe,
        },
        micro_batches: Some(question.micro_batches as u64),
        // Room in activations is asked for in place of memory.
        memory_limit: own.memory_limit.filter(|_| question.room.is_none()),
        ..own.clone()
    }
}
