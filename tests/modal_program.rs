//! The mixed-integer program of modes: against the dynamic program and brute force, and as files.

mod common;
mod oracles;

use common::modal::random_modal_links;
use stagecut::check;
use stagecut::control::Control;
use stagecut::exact;
use stagecut::instance::Instance;
use stagecut::methods::Method;
use stagecut::options::PipelineOptions;
use stagecut::plan::{Plan, Status};
use stagecut::problem::Problem;
use stagecut::settings::Settings;
use stagecut::spec::InstanceSpec;

/// A problem with modes, or `None` where the draw contradicts itself.
fn problem_of(spec: &InstanceSpec) -> Option<(Instance, Problem)> {
    let instance = Instance::from_spec(spec).ok()?;
    let settings = Settings::resolve(&instance, &PipelineOptions::default()).ok()?;
    let problem = Problem::new(&instance, settings).ok()?;
    problem.modes.is_some().then_some((instance, problem))
}

/// What a method makes of a problem; every plan passes the checker.
fn solved(method: exact::Method, instance: &Instance, problem: &Problem) -> Plan {
    let method = Method::Exact(method);
    assert_eq!(method.applies(problem), Ok(()));
    let plan = method.run(instance, problem, &Control::default()).unwrap();
    let violations = check::check(instance, &problem.settings, &plan);
    assert!(violations.is_empty(), "{violations:?}\n{plan:#?}");
    plan
}

#[test]
fn the_program_proves_what_the_dynamic_program_and_brute_force_find() {
    let seeds: u64 = std::env::var("MODES_PROBLEMS").map_or(300, |text| text.parse().unwrap());
    let (mut compared, mut two_levels, mut infeasible, mut open) = (0, 0, 0, 0);
    for seed in 0..seeds {
        let Some((instance, problem)) = problem_of(&random_modal_links(seed)) else {
            continue;
        };
        let best = oracles::modes::best_ms(&instance, &problem.settings);
        let is_best = |plan: &Plan| match (plan.objective_ms, best) {
            (Some(ms), Some(best)) => (ms - best).abs() <= 1e-6,
            (ms, best) => ms.is_none() && best.is_none(),
        };
        let dynamic = solved(exact::Method::Ideals, &instance, &problem);
        let methods = [exact::Method::Milp, exact::Method::Textbook];
        let method = methods[usize::from(seed.is_multiple_of(4))];
        let plan = solved(method, &instance, &problem);
        let proved = |plan: &Plan| matches!(plan.status, Status::Optimal | Status::Infeasible);
        assert!(proved(&plan), "seed {seed}: {plan:#?}");
        assert!(
            is_best(&plan),
            "seed {seed}: {:?}, not {best:?}\n{plan:#?}",
            plan.objective_ms
        );
        match proved(&dynamic) {
            true => assert_eq!(plan.objective_ms, dynamic.objective_ms, "seed {seed}"),
            false => open += 1,
        }
        compared += 1;
        two_levels += usize::from(instance.cluster.nodes.is_some());
        infeasible += usize::from(plan.status == Status::Infeasible);
    }
    println!("{compared} compared, {two_levels} with nodes, {infeasible} infeasible; {open} open by ideals");
    assert!(compared * 2 > seeds as usize && two_levels * 4 > compared && infeasible > 0);
}
