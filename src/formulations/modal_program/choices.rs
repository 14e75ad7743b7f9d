//! The modes a stage may run in, each with the micro-batches in flight that it counts, and what runs in them.

use good_lp::{Expression, variable};

use super::super::{Column, Program};
use crate::formulations::pools::Unsupported;
use crate::model::options::Objective;
use crate::problem::Problem;
use crate::problem::modes::{BETWEEN, INSIDE, LayerWays, ModalItem, Modes, StageMode, Way};

/// Columns that a program takes at most.
const MOST_COLUMNS: usize = 200_000;

/// A way for a stage to run: its mode, and what is data once its place in the pipeline is known.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Choice {
    pub mode: StageMode,
    /// Micro-batches in flight in each replica.
    pub in_flight: u64,
    /// No more replicas are behind.
    pub most_behind: usize,
    /// The level of the link that its replicas exchange gradients on.
    pub level: usize,
    /// Whether there are choices of both levels.
    pub is_split: bool,
    /// Stage, degree, replicas and micro-batches in flight, as names of columns and rows have them.
    pub name: String,
}

/// An item in a choice.
pub(super) struct Ran<'a> {
    /// 1 if it runs so.
    pub on: Column,
    /// For each layer its ways, and the column that is 1 for each: that of the item where there is but one.
    pub layers: Vec<Vec<(Column, &'a Way)>>,
}

/// What a stage may be.
pub(super) struct StageColumns<'a> {
    pub choices: Vec<Choice>,
    /// For each choice, whether the stage runs so.
    pub runs: Vec<Column>,
    /// By item and choice; `None` where they cannot meet.
    pub items: Vec<Vec<Option<Ran<'a>>>>,
    /// Most replicas behind the stage, whatever it is.
    pub most_behind: usize,
    /// For each degree, replicas and device of a node: whether it runs so from there on; empty with links of one level.
    pub places: Vec<Place>,
}

/// Where in its node a stage begins.
pub(super) struct Place {
    pub mode: StageMode,
    /// From 0.
    pub first: usize,
    pub column: Column,
}

impl<'a> StageColumns<'a> {
    /// The sum of the choices' columns, weighted.
    pub(super) fn sum(&self, weight: impl Fn(&Choice) -> f64) -> Expression {
        let mut sum = Expression::default();
        for (choice, column) in self.choices.iter().zip(&self.runs) {
            if weight(choice) != 0.0 {
                column.add_to(&mut sum, weight(choice));
            }
        }
        sum
    }

    /// All items in all choices, with the position of the choice.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, &Ran<'a>)> {
        self.items
            .iter()
            .flat_map(|ran| ran.iter().enumerate())
            .filter_map(|(c, ran)| Some((c, ran.as_ref()?)))
    }
}

/// What all choices of a program depend on.
#[derive(Clone, Copy)]
pub(super) struct Space<'a> {
    problem: &'a Problem,
    modes: &'a Modes,
    /// Whether memory can bind.
    is_limited: bool,
}

impl<'a> Space<'a> {
    pub(super) fn new(problem: &'a Problem, modes: &'a Modes) -> Self {
        Self {
            problem,
            modes,
            is_limited: !memory_never_binds(modes),
        }
    }

    pub(super) fn is_limited(self) -> bool {
        self.is_limited
    }

    /// The choices of a stage.
    fn choices(self, k: usize) -> Vec<Choice> {
        let modes = self.modes;
        let mut choices = Vec::new();
        for degree in 0..modes.degrees.len() {
            for &replicas in &modes.replicas {
                let mode = StageMode { degree, replicas };
                for (in_flight, most_behind) in self.flights(&mode, k) {
                    choices.extend(
                        self.of_levels(&mode, k, in_flight)
                            .into_iter()
                            .map(|choice| Choice {
                                most_behind,
                                ..choice
                            }),
                    );
                }
            }
        }
        choices
    }

    /// Most replicas behind a stage whose own devices are taken.
    fn most_behind(self, k: usize, devices: usize) -> usize {
        let largest = self.modes.replicas.iter().max().unwrap_or(&1);
        let stages = self.problem.stages() - 1 - k;
        (stages * largest).min(self.modes.devices.saturating_sub(devices))
    }

    /// Micro-batches that may be in flight in a mode, and the most replicas behind that go with them.
    fn flights(self, mode: &StageMode, k: usize) -> Vec<(u64, usize)> {
        let (modes, devices) = (self.modes, self.modes.devices_of(mode));
        // Stages behind one that is used hold items, and have a replica at least.
        let stages = self.problem.stages() - 1 - k;
        let least = stages * modes.replicas.iter().min().unwrap_or(&1);
        let most = self.most_behind(k, devices);
        let mut flights: Vec<(u64, usize)> = Vec::new();
        if devices > modes.row(mode.degree).devices {
            return flights;
        }
        for behind in least..=most {
            let in_flight = modes.flight.of(mode.replicas, behind);
            match flights.last_mut() {
                Some(last) if last.0 == in_flight || !self.is_limited => *last = (in_flight, behind),
                _ => flights.push((in_flight, behind)),
            }
        }
        flights
    }

    /// The choices of a mode by the level of its ring: two where that depends on its place in a node, and matters.
    fn of_levels(self, mode: &StageMode, k: usize, in_flight: u64) -> Vec<Choice> {
        let modes = self.modes;
        let devices = modes.devices_of(mode);
        let ring = |level: usize| modes.ring(mode, mode.replicas, level);
        let lies_across = |node: usize| devices > node;
        let levels: &[usize] = match node(modes) {
            _ if ring(INSIDE) == ring(BETWEEN) => &[INSIDE],
            None => &[INSIDE],
            Some(node) if lies_across(node) => &[BETWEEN],
            Some(_) => &[INSIDE, BETWEEN],
        };
        let choice = |&level: &usize| {
            let tensor = modes.degrees[mode.degree].tensor;
            let on = match modes.rows.len() {
                1 => String::new(),
                _ => format!(",{}", modes.name_of_row(modes.degrees[mode.degree].row)),
            };
            let is_split = levels.len() > 1;
            let side = match (is_split, level) {
                (false, _) => "",
                (true, INSIDE) => ",within",
                (true, _) => ",across",
            };
            Choice {
                mode: *mode,
                in_flight,
                most_behind: 0,
                level,
                is_split,
                name: format!("{},{tensor},{},{in_flight}{side}{on}", k + 1, mode.replicas),
            }
        };
        levels.iter().map(choice).collect()
    }

    /// The ways of a layer that a program chooses between: without those that an earlier one beats in time and all bytes.
    fn ways(self, layer: &'a LayerWays) -> Vec<&'a Way> {
        let mut kept: Vec<&Way> = Vec::new();
        for way in &layer.ways {
            let beats = |other: &&Way| {
                other.held_bytes <= way.held_bytes
                    && other.stash_bytes <= way.stash_bytes
                    && other.host_bytes <= way.host_bytes
                    && other.workspace_bytes <= way.workspace_bytes
            };
            if kept.is_empty() || (self.is_limited && !kept.iter().any(beats)) {
                kept.push(way);
            }
        }
        kept
    }

    /// Whether an item alone fits a device.
    fn fits(self, item: &ModalItem, choice: &Choice) -> bool {
        let least = |layer: &LayerWays| {
            let bytes = |way: &Way| way.held_bytes + choice.in_flight * way.stash_bytes;
            layer.ways.iter().map(bytes).min().unwrap_or(0)
        };
        let shared = item.shared_bytes.div_ceil(choice.mode.replicas as u64);
        let held: u64 = item.layers.iter().map(least).sum();
        !self.is_limited || held.saturating_add(shared) <= self.modes.memory_bytes(choice.mode.degree)
    }
}

/// Devices of a node, where there are several nodes.
pub(super) fn node(modes: &Modes) -> Option<usize> {
    modes.links.node.filter(|&node| node < modes.devices)
}

/// Whether all items together fit, however they run and how many micro-batches may be in flight.
fn memory_never_binds(modes: &Modes) -> bool {
    let limit = modes
        .rows
        .iter()
        .map(|row| row.memory_bytes)
        .min()
        .unwrap_or(u64::MAX);
    let hosts = (0..modes.degrees.len()).map(|degree| modes.host_memory_bytes(degree));
    let host_limit = hosts.min().unwrap_or(u64::MAX);
    if limit == u64::MAX && host_limit == u64::MAX {
        return true;
    }
    let in_flight = modes.replicas.iter().map(|&d| modes.flight.of(d, modes.devices));
    let in_flight = u128::from(in_flight.max().unwrap_or(0));
    let of_way = |way: &Way| {
        u128::from(way.held_bytes) + in_flight * u128::from(way.stash_bytes) + u128::from(way.workspace_bytes)
    };
    let at_host = |way: &Way| in_flight * u128::from(way.host_bytes);
    let of_item = |item: &ModalItem, of: &dyn Fn(&Way) -> u128| {
        let layers = item.layers.iter();
        layers
            .map(|layer| layer.ways.iter().map(of).max().unwrap_or(0))
            .sum::<u128>()
    };
    let most = |of: &dyn Fn(&ModalItem) -> u128| {
        let of_degrees =
            |degrees: &Vec<Option<ModalItem>>| degrees.iter().flatten().map(of).max().unwrap_or(0);
        modes.items.iter().map(of_degrees).sum::<u128>()
    };
    most(&|item| u128::from(item.shared_bytes) + of_item(item, &of_way)) <= u128::from(limit)
        && most(&|item| of_item(item, &at_host)) <= u128::from(host_limit)
}

/// Declares what the stages of a problem may be.
pub(super) fn declare<'a>(
    program: &mut Program,
    problem: &'a Problem,
    modes: &'a Modes,
    labels: &[String],
) -> Vec<StageColumns<'a>> {
    let space = Space::new(problem, modes);
    let mut stages = Vec::with_capacity(problem.stages());
    for k in 0..problem.stages() {
        let choices = space.choices(k);
        let mut runs =
            |choice: &Choice| program.declare(variable().binary().name(format!("runs[{}]", choice.name)));
        let runs = choices.iter().map(&mut runs).collect();
        let mut items = Vec::with_capacity(labels.len());
        for (item, label) in labels.iter().enumerate() {
            let of_item = choices.iter().map(|choice| {
                let own = modes.items[item][choice.mode.degree].as_ref()?;
                space
                    .fits(own, choice)
                    .then(|| ran(program, space, own, (label, choice)))
            });
            items.push(of_item.collect());
        }
        let places = match node(modes) {
            Some(node) => places(program, modes, &choices, (k, node)),
            None => Vec::new(),
        };
        stages.push(StageColumns {
            most_behind: space.most_behind(k, 0),
            choices,
            runs,
            items,
            places,
        });
    }
    stages
}

/// An item in a choice.
fn ran<'a>(
    program: &mut Program,
    space: Space<'a>,
    item: &'a ModalItem,
    (label, choice): (&str, &Choice),
) -> Ran<'a> {
    let name = format!("item_on[{label},{}]", choice.name);
    let on = program.declare(variable().bounds(0.0..=1.0).name(name));
    let mut layers = Vec::with_capacity(item.layers.len());
    for (l, layer) in item.layers.iter().enumerate() {
        let ways = space.ways(layer);
        let is_chosen = ways.len() > 1;
        let columns = ways.into_iter().enumerate().map(|(w, way)| {
            if !is_chosen {
                return (on, way);
            }
            let name = format!("way[{label},{},{},{}]", l + 1, choice.name, w + 1);
            (program.declare(variable().binary().name(name)), way)
        });
        layers.push(columns.collect());
    }
    Ran { on, layers }
}

/// Where in a node a stage may begin; the first one of all begins with a node.
fn places(program: &mut Program, modes: &Modes, choices: &[Choice], (k, node): (usize, usize)) -> Vec<Place> {
    let mut declared: Vec<StageMode> = choices.iter().map(|choice| choice.mode).collect();
    declared.dedup();
    let mut places = Vec::new();
    for mode in declared {
        let tensor = modes.degrees[mode.degree].tensor;
        let firsts = 0..if k == 0 { 1 } else { node };
        for first in firsts.filter(|&first| modes.links.groups_fit(first, tensor, mode.replicas)) {
            let name = format!("place[{},{tensor},{},{}]", k + 1, mode.replicas, first + 1);
            places.push(Place {
                mode,
                first,
                column: program.declare(variable().bounds(0.0..=1.0).name(name)),
            });
        }
    }
    places
}

/// Why a problem's program would be too large, if it would.
///
/// # Errors
///
/// That it is.
pub fn too_large(problem: &Problem, modes: &Modes) -> Result<(), Unsupported> {
    if modes.links.differ_by_rows() {
        return Err(
            "its kinds of devices have links of their own, of which a program of modes knows nothing",
        );
    }
    if modes.rows.len() > 1 && modes.links.node.is_some() {
        return Err(
            "its devices differ and its links have two levels, of which a program of modes knows one kind of device alone",
        );
    }
    if modes.has_links {
        return Err("its transfers run beside the work, of which a program of modes knows nothing");
    }
    if modes.degrees.iter().any(|degree| degree.expert > 1) {
        return Err("its experts may be shared out, of which a program of modes knows nothing");
    }
    if modes.degrees.iter().any(|degree| degree.group > 1) {
        return Err(
            "members of groups may share out micro-batches, of which a program of modes knows nothing",
        );
    }
    if modes.degrees.iter().any(|degree| degree.context > 1) {
        return Err("devices may share out sequences, of which a program of modes knows nothing");
    }
    if modes.degrees.iter().any(|degree| degree.sharers.is_some()) {
        return Err("replicas share out gradients, of which a program of modes knows nothing");
    }
    if modes.degrees.iter().any(|degree| degree.at_host) {
        return Err("states of optimisers may lie at hosts, of which a program of modes knows nothing");
    }
    if problem.settings.objective == Objective::Formula {
        return Err("it adds up all stages, of which a program of modes knows the busiest alone");
    }
    if modes.has_passes_apart() {
        return Err("passes of a layer may lie apart, of which a program of modes knows nothing");
    }
    if !modes.copies.is_empty() {
        return Err("some of its layers share a table, of whose copies a program of modes knows nothing");
    }
    let space = Space::new(problem, modes);
    let ways = |item: &ModalItem| -> usize {
        let columns = item.layers.iter().map(|layer| match space.ways(layer).len() {
            1 => 0,
            ways => ways,
        });
        1 + columns.sum::<usize>()
    };
    let columns: usize = (0..problem.stages())
        .flat_map(|k| space.choices(k))
        .map(|choice| {
            let items = modes.items.iter();
            let at_degree = items.filter_map(|item| item[choice.mode.degree].as_ref());
            at_degree.map(ways).sum::<usize>()
        })
        .sum();
    let places = node(modes).unwrap_or(0) * modes.degrees.len() * modes.replicas.len();
    match columns + places * problem.stages() > MOST_COLUMNS {
        true => Err("there are too many ways to run its layers for a program with a variable for each"),
        false => Ok(()),
    }
}
