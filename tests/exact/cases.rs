//! Small problems on which an earlier build was wrong, endless or failed, each with what is right.

use std::path::Path;
use std::time::Duration;

use crate::common::command::Folder;
use serde_json::Value;

/// A command on a file of `tests/cases`, and what must come of it.
struct Case {
    file: &'static str,
    args: &'static str,
    expects: Expects,
}

/// What must come of a command.
enum Expects {
    /// A plan that is proved best, of so many ns.
    Optimal(u64),
    /// A plan of so many ns or less.
    AtMost(u64),
    /// A proof that nothing fits.
    Infeasible,
    /// A refusal that says this.
    Refused(&'static str),
    /// A comparison to its end, in which nothing fits, as `exact` proves, and this method has no plan.
    NoPlanOf(&'static str),
}

/// No case takes longer, on two busy cores.
const LONGEST: Duration = Duration::from_secs(20);

const CASES: &[Case] = &[
    // Found by drawing 100,000 problems: an item without time was moved to its neighbour, parameters, ring and all.
    case("absorbed-parameters.json", "solve", Expects::Optimal(2_870_813)),
    // Presolve of HiGHS called it infeasible.
    case(
        "presolve-of-highs.json",
        "solve --method textbook",
        Expects::Optimal(2_000_000),
    ),
    // Beside a resource with levels, one without had the shares 0 and 1 alone.
    case(
        "shares-some-levels.json",
        "solve --confirm",
        Expects::Optimal(800_000),
    ),
    case(
        "shares-some-levels.json",
        "solve --method ideals",
        Expects::Optimal(800_000),
    ),
    case(
        "shares-some-levels.json",
        "solve --method milp",
        Expects::Optimal(800_000),
    ),
    case(
        "shares-some-levels.json",
        "solve --method textbook",
        Expects::Optimal(800_000),
    ),
    case(
        "shares-some-levels.json",
        "solve --method duan-wu",
        Expects::AtMost(800_000),
    ),
    case(
        "shares-some-levels.json",
        "solve --method alternate",
        Expects::AtMost(800_000),
    ),
    case(
        "shares-some-levels.json",
        "solve --shares global",
        Expects::Optimal(800_000),
    ),
    case(
        "shares-some-levels.json",
        "solve --shares theorem",
        Expects::AtMost(800_000),
    ),
    case(
        "shares-some-levels.json",
        "solve --shares even",
        Expects::AtMost(800_000),
    ),
    case(
        "shares-some-levels-large-error.json",
        "solve --stages 1 --confirm",
        Expects::Optimal(4_957_471),
    ),
    case(
        "shares-some-levels-large-error.json",
        "solve --stages 1 --method ideals",
        Expects::Optimal(4_957_471),
    ),
    case(
        "shares-some-levels-large-error.json",
        "solve --stages 1 --method milp",
        Expects::Optimal(4_957_471),
    ),
    case(
        "shares-some-levels-large-error.json",
        "solve --stages 1 --method textbook",
        Expects::Optimal(4_957_471),
    ),
    case(
        "shares-some-levels-large-error.json",
        "solve --stages 1 --method duan-wu-local",
        Expects::AtMost(4_957_471),
    ),
    // Regrouping lifted the objective, and slicing lowered it again: it did not end. The optima are 1,666,667 and 1,000,000 ns.
    case(
        "alternate-endless.json",
        "solve --method alternate",
        Expects::AtMost(1_666_667),
    ),
    case("alternate-endless.json", "solve", Expects::Optimal(1_666_667)),
    case(
        "alternate-endless-2.json",
        "solve --method alternate",
        Expects::AtMost(1_197_574),
    ),
    case("alternate-endless-2.json", "solve", Expects::Optimal(1_000_000)),
    // Ideals know nothing of memory that both passes of a layer hold together: their plan was refused and looked for again.
    case(
        "iteration-separate-memory-endless.json",
        "solve --method exact",
        Expects::Optimal(6_844),
    ),
    case(
        "iteration-separate-memory-endless.json",
        "solve --method milp",
        Expects::Optimal(6_844),
    ),
    case(
        "iteration-separate-memory-endless-2.json",
        "solve --method exact",
        Expects::Optimal(35_233_402),
    ),
    case(
        "iteration-separate-memory-endless-2.json",
        "solve --method milp",
        Expects::Optimal(35_233_402),
    ),
    // A bound up to 1e-7 below the objective counted as a proof.
    case(
        "bound-above-optimum.json",
        "solve --method exact",
        Expects::Optimal(200_000_000_002),
    ),
    case(
        "bound-above-optimum.json",
        "solve --method ideals",
        Expects::Optimal(200_000_000_002),
    ),
    case(
        "brkga-memory.json",
        "compare --mode training --stages 5 --all-stages --objective period --schedule pipedream --communication blocking \
         --optimizer momentum --cuts separate --micro-batches 7 --memory-limit 20",
        Expects::NoPlanOf("brkga"),
    ),
    // Where links inside nodes are the slower ones, the dynamic program ended without a proof.
    case(
        "modes-slow-inside.json",
        "solve --stages 3 --objective period --micro-batches 2 --recompute choose --replicas 1",
        Expects::Optimal(12_000_000),
    ),
    case(
        "modes-slow-inside.json",
        "solve --stages 3 --objective period --micro-batches 2 --recompute choose --replicas 1 --method ideals --confirm",
        Expects::Optimal(12_000_000),
    ),
    case(
        "modes-slow-inside-6.json",
        "solve --mode training --stages 2 --communication blocking --schedule gpipe --optimizer momentum --objective period \
         --micro-batches 1 --tensor choose --replicas choose --recompute choose --precision uniform --optimizer-sharding zero1",
        Expects::Optimal(252),
    ),
    // Times from 1 ns to 100 s in one small problem: the program's tolerance left it open.
    case(
        "separate-memory-unproved.json",
        "solve",
        Expects::Optimal(5_510_384_347),
    ),
    case(
        "separate-memory-unproved-2.json",
        "solve",
        Expects::Optimal(326_288_150_326),
    ),
    // Weights over so many micro-batches were rounded up to 1/7 ns.
    case(
        "formula-weights-of-many-micro-batches.json",
        "solve",
        Expects::Optimal(72_058_627_614),
    ),
    // What never moves took longer over a slow link than whole numbers can count. The stash of `b` alone fills a device.
    case(
        "slow-link-overflow.json",
        "solve --tensor choose --replicas choose --recompute choose",
        Expects::Infeasible,
    ),
    // More than the checker could simulate.
    case(
        "iteration-long-layer.json",
        "solve --objective iteration --micro-batches 4",
        Expects::Refused("found a total of"),
    ),
];

const fn case(file: &'static str, args: &'static str, expects: Expects) -> Case {
    Case { file, args, expects }
}

#[test]
fn every_case_is_right() {
    for Case { file, args, expects } in CASES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/cases")
            .join(file);
        let mut arguments: Vec<&str> = args.split_whitespace().collect();
        arguments.insert(1, path.to_str().expect("a path in UTF-8"));
        arguments.extend(["--format", "json", "--quiet", "--time-limit", "60"]);
        let run = Folder::new().run(&arguments);
        let what = format!("{file}: {args}\n{}{}", run.stdout, run.stderr);
        assert!(run.elapsed < LONGEST, "{:?}, {what}", run.elapsed);
        if let Expects::Refused(words) = expects {
            assert!(
                run.code == 2 && run.stderr.contains(words),
                "{}, {what}",
                run.code
            );
            continue;
        }
        let answer: Value =
            serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {what}"));
        let ns = |value: &Value| (value.as_f64().expect("ms") * 1e6).round() as u64;
        match expects {
            Expects::Refused(_) => {}
            Expects::Infeasible => assert_eq!(answer["status"], "infeasible", "{what}"),
            Expects::Optimal(optimum_ns) => {
                assert_eq!(answer["status"], "optimal", "{what}");
                let of_plan = [&answer["objective_ms"], &answer["bound_ms"]].map(ns);
                assert_eq!(of_plan, [*optimum_ns; 2], "{what}");
                let is_confirmed = !answer["statistics"]["confirmed_by"].is_null();
                assert!(is_confirmed || !args.contains("--confirm"), "{what}");
            }
            Expects::NoPlanOf(method) => {
                let rows = answer.as_array().expect("rows");
                let status = |method: &str| {
                    let row = rows.iter().find(|row| row["method"] == method);
                    row.expect("a row for every method")["status"].clone()
                };
                // Proved independently: nothing fits.
                assert_eq!(status("exact"), "infeasible", "{what}");
                assert_eq!(status(method), "no-plan", "{what}");
            }
            Expects::AtMost(most_ns) => assert!(ns(&answer["objective_ms"]) <= *most_ns, "{what}"),
        }
    }
}
