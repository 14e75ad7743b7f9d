//! The tables of a report.

use super::cells::Bracket;
use super::measures::{Group, MethodRow};
use super::profile::Curve;
use super::reasons::{failures, reasons};
use super::significance::{Comparison, LEVEL};
use super::summary::Summary;
use super::table::{Cell, Table, Unit};

/// All tables that need nothing but the summary.
pub(crate) fn tables(summary: &Summary) -> Vec<Table> {
    vec![
        methods(summary),
        curves(
            "quality",
            "Performance profiles",
            "ratio",
            &summary.quality,
            &summary.quality,
        ),
        curves(
            "speed",
            "Time to the optimum",
            "ratio",
            &summary.speed,
            &summary.speed,
        ),
        curves(
            "gaps",
            "Distribution of gaps",
            "gap",
            &summary.gaps_low,
            &summary.gaps_high,
        ),
        families(summary),
        groups("by-stages", "Gap by stages", None, "stages", &summary.by_stages),
        groups(
            "by-size",
            "Gap by instance",
            Some("instance"),
            "layers",
            &summary.by_size,
        ),
        wins(summary),
        significance(summary),
        reasons(summary),
        failures(summary),
        problems(summary),
        about(summary),
    ]
}

/// The table of methods.
pub(crate) fn methods(summary: &Summary) -> Table {
    let note = format!(
        "Gap: (objective - optimum) / objective; where the optimum is not known it lies in a range, whose ends are the gaps to \
         the best plan and to the best bound. Optimal: runs whose plan meets the best bound. Time ratio: geometric mean over \
         problems of the time over that of `{}`, with a bootstrap interval of 95 %.",
        summary.reference
    );
    let mut table = Table::new(
        "methods",
        "Methods",
        note,
        &[
            ("method", "method"),
            ("runs", "runs"),
            ("solved", "optimal runs"),
            ("solved_share", "optimal"),
            ("without_plan", "no plan"),
            ("failed", "failed"),
            ("mean_gap", "mean gap"),
            ("median_gap", "median gap"),
            ("p95_gap", "95 % gap"),
            ("worst_gap", "worst gap"),
            ("median_s", "median time"),
            ("p95_s", "95 % time"),
            ("time_ratio", "time ratio"),
            ("time_ratio_95", "interval"),
        ],
    );
    table.rows = summary.table.iter().map(method_cells).collect();
    table
}

fn method_cells(row: &MethodRow) -> Vec<Cell> {
    vec![
        Cell::Word(row.method.clone()),
        Cell::Count(row.runs),
        Cell::Count(row.solved),
        Cell::number(row.solved_share, Unit::Part),
        Cell::Count(row.without_plan),
        Cell::Count(row.failed),
        Cell::range(row.mean_gap_low, row.mean_gap_high, Unit::Part),
        Cell::range(row.median_gap_low, row.median_gap_high, Unit::Part),
        Cell::range(row.p95_gap_low, row.p95_gap_high, Unit::Part),
        Cell::range(row.worst_gap_low, row.worst_gap_high, Unit::Part),
        Cell::number(row.median_s, Unit::Seconds),
        Cell::number(row.p95_s, Unit::Seconds),
        Cell::number(row.time_ratio, Unit::Ratio),
        Cell::range(row.time_ratio_low, row.time_ratio_high, Unit::Ratio),
    ]
}

/// Step functions at every place where one of a method's pair jumps.
fn curves(name: &'static str, title: &'static str, x: &'static str, low: &[Curve], high: &[Curve]) -> Table {
    let note = format!("The part of problems or runs whose {x} is at most that of the row.");
    let mut table = Table::new(
        name,
        title,
        note,
        &[("method", "method"), (x, x), ("share", "share")],
    );
    for (certain, possible) in high.iter().zip(low) {
        let mut at: Vec<f64> = certain
            .steps
            .iter()
            .chain(&possible.steps)
            .map(|step| step.0)
            .collect();
        at.sort_by(f64::total_cmp);
        at.dedup();
        let unit = if x == "gap" { Unit::Part } else { Unit::Ratio };
        table.rows.extend(at.into_iter().map(|x| {
            let (low, high) = (certain.part(x), possible.part(x));
            vec![
                Cell::Word(certain.method.clone()),
                Cell::Number(x, unit),
                Cell::Range(Bracket { low, high }, Unit::Part),
            ]
        }));
    }
    table
}

/// Mean gaps by family: a column each, in the order of the study.
pub(crate) fn families(summary: &Summary) -> Table {
    let mut families: Vec<&str> = Vec::new();
    for cell in &summary.cells {
        if !families.contains(&cell.task.family.as_str()) {
            families.push(&cell.task.family);
        }
    }
    let columns: Vec<(&str, &str)> = std::iter::once("method")
        .chain(families.iter().copied())
        .map(|name| (name, name))
        .collect();
    let mut table = Table::new("by-family", "Gap by family", MEAN_GAP, &columns);
    let of = |method: &str, family: &str| {
        let mut groups = summary.by_family.iter();
        let group = groups.find(|group| group.method == method && group.group == family);
        group.map_or(Cell::Empty, mean_gap)
    };
    let row = |method: &String| {
        let cells = families.iter().map(|family| of(method, family));
        std::iter::once(Cell::Word(method.clone())).chain(cells).collect()
    };
    table.rows = summary.methods.iter().map(row).collect();
    table
}

/// Mean gaps by group: what groups are called, where they have names of their own, and what their sizes count.
fn groups(
    name: &'static str,
    title: &'static str,
    called: Option<&'static str>,
    size: &'static str,
    groups: &[Group],
) -> Table {
    let names = std::iter::once("method").chain(called).chain([size, "runs"]);
    let mut columns: Vec<(&str, &str)> = names.map(|name| (name, name)).collect();
    columns.push(("mean_gap", "mean gap"));
    let mut table = Table::new(name, title, MEAN_GAP, &columns);
    let cells = |group: &Group| {
        let mut cells = vec![Cell::Word(group.method.clone())];
        cells.extend(called.map(|_| Cell::Word(group.group.clone())));
        cells.extend([Cell::Count(group.x), Cell::Count(group.runs), mean_gap(group)]);
        cells
    };
    table.rows = groups.iter().map(cells).collect();
    table
}

/// What tables of mean gaps hold.
const MEAN_GAP: &str = "Mean gap of the runs of a method that have a plan.";

fn mean_gap(group: &Group) -> Cell {
    Cell::range(Some(group.mean_gap_low), Some(group.mean_gap_high), Unit::Part)
}

/// The win matrix: the row's method against the column's.
pub(crate) fn wins(summary: &Summary) -> Table {
    let note = "On how many common problems the method of the row has the better plan, neither has, and the method of the column \
                has: wins / ties / losses.";
    let mut table = Table::new("wins", "Who beats whom", note, &[("method", "method")]);
    let methods = summary.methods.len();
    let named = summary
        .methods
        .iter()
        .map(|method| (method.clone(), method.clone()));
    table.columns.extend(named);
    let mut cells = vec![vec![Cell::Empty; methods]; methods];
    for one in &summary.comparisons {
        let ((first, second), [wins, ties, losses]) = (one.methods, [one.wins, one.ties, one.losses]);
        cells[first][second] = Cell::Tally([wins, ties, losses]);
        cells[second][first] = Cell::Tally([losses, ties, wins]);
    }
    let rows = summary.methods.iter().zip(cells);
    table.rows = rows
        .map(|(method, row)| std::iter::once(Cell::Word(method.clone())).chain(row).collect())
        .collect();
    table
}

/// Whether what one method wins against another may be chance.
pub(crate) fn significance(summary: &Summary) -> Table {
    let note = format!(
        "Wilcoxon's signed-rank test of every two methods, on both sides: pairs are common problems on which their plans differ, ranked \
         by the ratio of objectives; p is the probability of such ranks, or of more uneven ones, if neither were better. Of {} \
         comparisons some look significant by chance, hence Holm's correction; what is below {LEVEL} then is called better.",
        summary.comparisons.len()
    );
    let columns = [
        ("method", "method"),
        ("other", "other method"),
        ("problems", "problems"),
        ("pairs", "pairs"),
        ("wins", "wins"),
        ("ties", "ties"),
        ("losses", "losses"),
        ("rank_sum", "ranks won"),
        ("p", "p"),
        ("p_holm", "p by Holm"),
        ("better", "better"),
    ];
    let mut table = Table::new("significance", "Is it chance?", note, &columns);
    table.rows = (summary.comparisons.iter())
        .map(|one| comparison_cells(&summary.methods, one))
        .collect();
    table
}

fn comparison_cells(methods: &[String], one: &Comparison) -> Vec<Cell> {
    let (first, second) = (&methods[one.methods.0], &methods[one.methods.1]);
    let half = (one.pairs() * (one.pairs() + 1)) as f64 / 4.0;
    let better = match (one.p_holm < LEVEL, one.rank_sum > half) {
        (true, true) => first,
        (true, false) => second,
        (false, _) => "neither",
    };
    vec![
        Cell::Word(first.clone()),
        Cell::Word(second.clone()),
        Cell::Count(one.pairs() + one.ties),
        Cell::Count(one.pairs()),
        Cell::Count(one.wins),
        Cell::Count(one.ties),
        Cell::Count(one.losses),
        Cell::Number(one.rank_sum, Unit::Rank),
        Cell::Number(one.p, Unit::Probability),
        Cell::Number(one.p_holm, Unit::Probability),
        Cell::Word(better.into()),
    ]
}

/// Every problem with what is known of it.
fn problems(summary: &Summary) -> Table {
    let mut table = Table::new(
        "problems",
        "Problems",
        "Every problem with the best plan and the best bound of all methods.",
        &[
            ("instance", "instance"),
            ("family", "family"),
            ("cluster", "cluster"),
            ("options", "options"),
            ("layers", "layers"),
            ("stages", "stages"),
            ("objective_ms", "best plan"),
            ("bound_ms", "best bound"),
            ("gap", "gap"),
            ("best", "found by"),
        ],
    );
    for cell in &summary.cells {
        let (layers, stages) = cell.size();
        let count = |count: Option<usize>| count.map_or(Cell::Empty, Cell::Count);
        let finders = cell
            .rows
            .iter()
            .filter(|row| row.objective_ms.is_some() && row.objective_ms == cell.best_ms);
        let mut finders: Vec<&str> = finders.map(|row| row.task.method.as_str()).collect();
        finders.dedup();
        let gap = cell.best_ms.and_then(|best| cell.gap(best)).map(|gap| gap.high);
        table.rows.push(vec![
            Cell::Word(cell.task.instance.clone()),
            Cell::Word(cell.task.family.clone()),
            Cell::Word(cell.task.cluster.clone().unwrap_or_default()),
            Cell::Word(cell.task.options_text()),
            count(layers),
            count(stages),
            Cell::number(cell.best_ms, Unit::Ms),
            Cell::number(cell.bound_ms, Unit::Ms),
            Cell::number(gap, Unit::Part),
            Cell::Word(finders.join(" ")),
        ]);
    }
    table
}

/// What the methods are, as the registry says.
pub(crate) fn about(summary: &Summary) -> Table {
    let columns = [
        ("method", "method"),
        ("summary", "what it does"),
        ("source", "source"),
    ];
    let mut table = Table::new("about", "What the methods are", "", &columns);
    let mut names: Vec<&str> = Vec::new();
    for row in summary.cells.iter().flat_map(|cell| &cell.rows) {
        if !names.contains(&row.task.method.as_str()) {
            names.push(&row.task.method);
        }
    }
    for method in names.into_iter().filter_map(crate::solve::methods::find) {
        table.rows.push(vec![
            Cell::Word(method.name().into()),
            Cell::Word(method.summary().into()),
            Cell::Word(method.source().into()),
        ]);
    }
    table
}
