//! What may run a stage: a device of a kind, or where stages have modes a tensor group of one, whose links depend on where it lies.

use fixedbitset::FixedBitSet;

use crate::exact::incumbent::Incumbent;
use crate::exact::iteration::arcs::{self, Arcs};
use crate::exact::modal::{Side, payment, plan_of};
use crate::problem::Problem;
use crate::problem::cost::allocation::Allocation;
use crate::problem::modes::{ByLevel, ModalTransfer, Modes, StageMode};
use crate::problem::plan::StoppedBy;
use crate::problem::prompt::{self, Machines, Reads, class_of};
use crate::search::ideals::Ideals;

/// All items between two ideals as a stage on some devices.
pub(super) struct Stage {
    /// The larger ideal.
    pub to: usize,
    /// What runs it: the position of a choice of workers, or of a degree of modes.
    pub option: usize,
    /// The row of its devices, or their kind in play.
    pub row: usize,
    /// How many these are.
    pub devices: usize,
    /// What each chunk takes on each of its machines, but for what the [ends](Ends) take.
    own_ns: Machines,
    /// What the ends take beside that, where links have several levels.
    ends: Option<Box<Ends>>,
}

/// What tensors take that enter and leave a stage, level by level of the links in play, each for all chunks.
struct Ends {
    ahead_ns: Vec<Vec<u64>>,
    behind_ns: Vec<Vec<u64>>,
    /// With the stage's own, at least.
    least_ns: Machines,
}

impl Stage {
    /// What each chunk takes at least on each machine.
    pub(super) fn least_ns(&self) -> &Machines {
        self.ends.as_ref().map_or(&self.own_ns, |ends| &ends.least_ns)
    }

    /// Has chunks that come at such times pass the stage, between boundaries of such levels, by position among those in play.
    pub(super) fn pass(&self, left_ns: &mut [u64], [ahead, behind]: [usize; 2]) {
        let ends = self.ends.as_deref();
        let came_in = ends.map(|ends| &ends.ahead_ns[ahead]);
        let leaves = ends.map(|ends| &ends.behind_ns[behind]);
        let count = self.own_ns.len();
        prompt::pass(left_ns, count, |machine, chunk| {
            let moved = [
                came_in.filter(|_| machine == 0),
                leaves.filter(|_| machine + 1 == count),
            ];
            self.own_ns[machine][chunk] + moved.iter().flatten().map(|each| each[chunk]).sum::<u64>()
        });
    }
}

/// The ideals of a problem, and what may run the stages between them.
pub(super) struct Options<'a> {
    pub problem: &'a Problem,
    pub reads: &'a Reads,
    pub ideals: Ideals,
    /// Devices of each row, or of each kind in play.
    pub devices: Vec<usize>,
    /// The levels of links in play.
    pub levels: Vec<usize>,
    /// For each chunk and transfer, whether it may go past a stage.
    may_skip: Vec<Vec<bool>>,
    /// The stages of single devices, where none has modes.
    arcs: Vec<Vec<arcs::Arc>>,
}

impl<'a> Options<'a> {
    /// Enumerates ideals; or why not.
    pub(super) fn new(incumbent: &Incumbent<'a>, reads: &'a Reads) -> Result<Self, StoppedBy> {
        let problem = incumbent.problem;
        if let Some(modes) = &problem.modes {
            let ideals = arcs::ideals(incumbent)?;
            let may_skip = reads.modes.iter().map(|modes| may_skip(modes, &ideals));
            return Ok(Self {
                problem,
                reads,
                may_skip: may_skip.collect(),
                ideals,
                devices: modes.rows.iter().map(|row| row.devices).collect(),
                levels: modes.links.of_rows(0..modes.rows.len()),
                arcs: Vec::new(),
            });
        }
        let Arcs { ideals, from, .. } = Arcs::new(incumbent)?;
        let inventory =
            (problem.workers.as_ref()).map_or(vec![problem.stages()], |workers| workers.inventory.clone());
        Ok(Self {
            problem,
            reads,
            ideals,
            devices: inventory
                .into_iter()
                .map(|count| count.min(problem.stages()))
                .collect(),
            levels: vec![0],
            may_skip: Vec::new(),
            arcs: from,
        })
    }

    /// Sets of options that all stages of a plan are of: one of all, unless they are to be alike.
    pub(super) fn sets(&self) -> Vec<Vec<usize>> {
        match &self.problem.modes {
            None => vec![Vec::new()],
            Some(modes) if self.problem.settings.uniform => {
                let degrees = |alike: Vec<StageMode>| alike.iter().map(|mode| mode.degree).collect();
                modes.alike_kinds().into_iter().map(degrees).collect()
            }
            Some(modes) => vec![(0..modes.degrees.len()).collect()],
        }
    }

    /// Devices of the smallest stage.
    pub(super) fn narrowest(&self, is_allowed: &dyn Fn(usize) -> bool) -> usize {
        let modes = self.problem.modes.as_ref();
        let widths = modes.map_or(Vec::new(), |modes| {
            let degrees = (0..modes.degrees.len()).filter(|&degree| is_allowed(degree));
            degrees.map(|degree| modes.width(degree)).collect()
        });
        widths.into_iter().min().unwrap_or(1)
    }

    /// Whether every stage is on one device.
    pub(super) fn is_narrow(&self) -> bool {
        let modes = self.problem.modes.as_ref();
        modes.is_none_or(|modes| (0..modes.degrees.len()).all(|degree| modes.width(degree) == 1))
    }

    /// How many stages there are at most.
    pub(super) fn count(&self, is_allowed: &dyn Fn(usize) -> bool) -> usize {
        match &self.problem.modes {
            None => self.arcs.iter().flatten().map(|arc| arc.options.len()).sum(),
            Some(modes) => {
                let pairs: usize = (0..self.ideals.sets.len())
                    .map(|ideal| self.ideals.inside(ideal).len())
                    .sum();
                pairs
                    * (0..modes.degrees.len())
                        .filter(|&degree| is_allowed(degree))
                        .count()
            }
        }
    }

    /// How many times so many stages keep.
    pub(super) fn times_of_stages(&self, count: usize) -> usize {
        let each = match self.levels.len() {
            1 => self.reads.machines,
            several => 2 * self.reads.machines + 2 * several,
        };
        count.saturating_mul(each * self.reads.chunks)
    }

    /// The stages that begin at an ideal.
    pub(super) fn from(&self, before: usize, is_allowed: &dyn Fn(usize) -> bool) -> Vec<Stage> {
        match &self.problem.modes {
            None => self.on_devices(before),
            Some(modes) => self.in_modes(modes, before, is_allowed),
        }
    }

    fn on_devices(&self, before: usize) -> Vec<Stage> {
        let (problem, ideals) = (self.problem, &self.ideals);
        let mut all = Vec::new();
        for arc in &self.arcs[before] {
            let members = ideals.between(before, arc.after);
            if !problem.admits_together(&members) {
                continue;
            }
            let inside = |item| ideals.sets[arc.after].contains(item) && !ideals.sets[before].contains(item);
            for &(choice, _) in &arc.options {
                let row = class_of(problem, choice);
                let each_ns = self.reads.stage_ns(problem, &members, inside, row);
                all.extend(each_ns.map(|each_ns| Stage {
                    to: arc.after,
                    option: choice,
                    row,
                    devices: 1,
                    own_ns: each_ns,
                    ends: None,
                }));
            }
        }
        all
    }

    fn in_modes(&self, modes: &Modes, before: usize, is_allowed: &dyn Fn(usize) -> bool) -> Vec<Stage> {
        let sets = &self.ideals.sets;
        let mut all = Vec::new();
        let behind = (before + 1..sets.len()).filter(|&after| sets[before].is_subset(&sets[after]));
        for after in behind {
            let members = self.ideals.between(before, after);
            if !self.problem.admits_together(&members) {
                continue;
            }
            for degree in (0..modes.degrees.len()).filter(|&degree| is_allowed(degree)) {
                let mode = StageMode { degree, replicas: 1 };
                let layers = modes.layers_of(&members, degree);
                let ways = (layers.zip(modes.room(&members, &mode)))
                    .and_then(|(layers, room)| modes.knapsack.within(&layers, 0, room));
                let stage = ways.and_then(|_| self.in_mode(&members, (before, after), degree));
                all.extend(stage.map(|(own_ns, ends)| Stage {
                    to: after,
                    option: degree,
                    row: modes.degrees[degree].row,
                    devices: modes.width(degree),
                    own_ns,
                    ends: ends.map(Box::new),
                }));
            }
        }
        all
    }

    /// What each chunk takes on a stage of a degree, and what its ends take where that depends on where it lies.
    fn in_mode(
        &self,
        members: &[usize],
        (before, after): (usize, usize),
        degree: usize,
    ) -> Option<(Machines, Option<Ends>)> {
        let sets = &self.ideals.sets;
        let inside = |item: usize| sets[after].contains(item) && !sets[before].contains(item);
        let ahead = |item: usize| sets[before].contains(item);
        let (chunks, reads) = (self.reads.chunks, self.reads);
        let mut own_ns: Machines = vec![vec![0; chunks]; reads.machines];
        let mut ends_ns = [(); 2].map(|()| vec![vec![0; chunks]; self.levels.len()]);
        for (at, modes) in self.reads.modes.iter().enumerate() {
            let layers = modes.layers_of(members, degree)?;
            own_ns[reads.device()][at] = layers.iter().map(|layer| layer.ways[0].time()).sum();
            let touched = members.iter().flat_map(|&item| &modes.transfers_of[item]);
            let mut touched: Vec<usize> = touched.copied().collect();
            touched.sort_unstable();
            touched.dedup();
            let paid = touched.into_iter().filter_map(|transfer| {
                let (side, ticks) = payment(&modes.transfers[transfer], degree, &inside, &ahead)?;
                Some((side, self.at_levels(ticks, self.may_skip[at][transfer])))
            });
            for (side, ticks) in paid {
                // Forward propagation goes one way.
                let sums = &mut ends_ns[usize::from(side != Side::Ahead)];
                sums.iter_mut()
                    .zip(ticks)
                    .for_each(|(sum, ticks)| sum[at] += ticks);
            }
        }
        let mut least_ns = own_ns.clone();
        for (leaves, side) in [false, true].into_iter().zip(&ends_ns) {
            for (at, sum) in least_ns[reads.link(leaves)].iter_mut().enumerate() {
                *sum += side.iter().map(|each| each[at]).min().unwrap_or(0);
            }
        }
        if self.levels.len() == 1 {
            return Some((least_ns, None));
        }
        let [ahead_ns, behind_ns] = ends_ns;
        let ends = Ends {
            ahead_ns,
            behind_ns,
            least_ns,
        };
        Some((own_ns, Some(ends)))
    }

    /// What a transfer takes over the links in play: at least, where it may go past a stage, over a link of another level than that of the boundary.
    fn at_levels(&self, ticks: ByLevel, may_skip: bool) -> Vec<u64> {
        let all = self.levels.iter().map(|&level| ticks[level]);
        let least = all.clone().min().unwrap_or(0);
        all.map(|ticks| if may_skip { least } else { ticks }).collect()
    }

    /// Whether no group of a stage spans nodes that begins behind so many devices of its row.
    pub(super) fn fits(&self, stage: &Stage, taken: usize) -> bool {
        self.problem.modes.as_ref().is_none_or(|modes| {
            let mode = StageMode {
                degree: stage.option,
                replicas: 1,
            };
            modes.groups_fit(modes.rows[stage.row].first + taken, &mode)
        })
    }

    /// Whether stages of a row may lie behind those of another.
    pub(super) fn may_follow(&self, ahead: usize, behind: usize) -> bool {
        let modes = self.problem.modes.as_ref();
        modes.is_none_or(|modes| modes.may_follow(ahead, behind))
    }

    /// The level, by position among those in play, of the link between the last device that is taken of a row and the first that is not of another.
    pub(super) fn level(&self, [last, row]: [usize; 2], [taken_of_last, taken]: [usize; 2]) -> usize {
        let Some(modes) = self.problem.modes.as_ref().filter(|_| self.levels.len() > 1) else {
            return 0;
        };
        let end = modes.rows[last].first + taken_of_last - 1;
        let level = modes.links.level(end, modes.rows[row].first + taken);
        self.levels.iter().position(|&own| own == level).unwrap_or(0)
    }

    /// The plan whose stages end with these ideals and run on these options; `None` where it does not fit.
    pub(super) fn plan(&self, path: &[(usize, usize)]) -> Option<Allocation> {
        let Some(modes) = &self.problem.modes else {
            return Some(arcs::plan(self.problem, &self.ideals, path));
        };
        let mut before = 0;
        let stages = path.iter().map(|&(ideal, degree)| {
            let members = self.ideals.between(before, ideal);
            before = ideal;
            (members, StageMode { degree, replicas: 1 })
        });
        let stages: Vec<_> = stages.collect();
        let (assignment, chosen) = plan_of(modes, &stages)?;
        Some(Allocation {
            modes: Some(chosen),
            ..Allocation::from(assignment)
        })
    }
}

/// For each transfer, whether it crosses several boundaries of some plan.
fn may_skip(modes: &Modes, ideals: &Ideals) -> Vec<bool> {
    let skips = |transfer: &ModalTransfer| {
        let crosses = |set: &&FixedBitSet| {
            set.contains(transfer.producer) && !transfer.consumers.iter().all(|&to| set.contains(to))
        };
        ideals.sets.iter().filter(crosses).nth(1).is_some()
    };
    modes.transfers.iter().map(skips).collect()
}
