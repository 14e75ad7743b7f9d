//! What regions cost: what is said of plans of any region is what is found without one.

use crate::common::command::Folder;
use crate::common::modal::random_modal;
use crate::common::seeds;
use stagecut::control::Control;
use stagecut::exact;
use stagecut::instance::Instance;
use stagecut::methods::Method;
use stagecut::options::PipelineOptions;
use stagecut::posed::Posed;

#[test]
fn equal_degrees_cost_what_free_ones_gain() {
    let (mut told, mut dearer) = (0, 0);
    for seed in seeds(240) {
        let instance = Instance::from_spec(&random_modal(seed)).unwrap();
        let solved = |uniform: Option<bool>| {
            let options = PipelineOptions {
                uniform,
                ..PipelineOptions::default()
            };
            let posed = Posed::new(&instance, &options).ok()?;
            let control = Control::default();
            let plan = posed
                .solve(Method::Exact(exact::Method::Exact), &control)
                .unwrap();
            let known = posed.unrestricted(&plan, &control).unwrap();
            Some((plan, known))
        };
        // Devices may be too few for the stages that are asked for.
        let (Some((free, none)), Some((plan, known))) = (solved(None), solved(Some(true))) else {
            continue;
        };
        assert_eq!(none, None, "seed {seed}");
        assert_eq!(known.is_some(), !plan.stages.is_empty(), "seed {seed}");
        let Some(known) = known else { continue };
        assert_eq!(
            (known.objective_ms, Some(known.bound_ms)),
            (free.objective_ms, free.bound_ms),
            "seed {seed}"
        );
        told += 1;
        dearer += usize::from(known.objective_ms < plan.objective_ms);
    }
    assert!(told > 60 && dearer > 2, "{told} {dearer}");
}

#[test]
fn reports_say_what_a_region_costs() {
    let net = r#"
        [network]
        layers = [
            { id = "a", modes = [{ tensor = 1, forward_ms = 3, backward_ms = 6 }, { tensor = 2, forward_ms = 1.6, backward_ms = 3.2 }] },
            { id = "b", forward_ms = 1, backward_ms = 2 },
        ]
        tensors = [{ producer = "a", consumers = ["b"], bytes = 8 }]
        [cluster]
        device_kinds = [{ name = "gpu", count = 3 }]
    "#;
    let folder = Folder::with("net.toml", net);
    let asked = |options: &[&str]| {
        let all = [
            &["solve", "net.toml", "--micro-batches", "4", "--tensor", "choose"],
            options,
        ]
        .concat();
        let text = folder.succeed(&all);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    // The stage of `a` works without a break, four times 9 ms; layer `b` has no mode of degree 2.
    let text = asked(&["--uniform"]);
    assert!(text.contains("36.0000 ms an iteration"), "{text}");
    assert!(
        text.contains("price equal degrees cost 74.76 %: the best plan of any region takes 20.6000 ms"),
        "{text}"
    );
    assert!(!asked(&[]).contains("price"));
}
