//! The stages between ideals, and what they take by where they begin and end.

use std::cmp::Ordering;

use super::{Late, Relaxation};
use crate::exact::incumbent::Incumbent;
use crate::exact::iteration::cells::Cells;
use crate::exact::iteration::options::{StageOption, StageOptions};
use crate::problem::cost::{self, Side, StageCost};
use crate::problem::pipeline::PhaseTimes;
use crate::problem::plan::StoppedBy;

/// The most stages: half a gigabyte.
const MOST_STAGES: usize = 6_000_000;

/// A stage that holds the items between two ideals.
#[derive(Clone, Copy, Debug)]
pub(in crate::exact::iteration) struct Stage {
    /// The larger ideal.
    pub to: u32,
    /// Where it ends.
    pub(super) behind: Boundary,
    /// How it is run.
    pub way: StageOption,
    /// Forward and backward time of its worker, in ns, each at least.
    pub times: [u64; 2],
    /// What its worker is busy with of a micro-batch at least: both together, or the longer where they run at once.
    pub load_ns: u64,
    /// Time that a micro-batch spends in it and on its way to and from the next stage at least, in ns.
    pub latency_ns: u64,
    /// What its links bring and take forwards, and backwards, in ns.
    links_ns: [[u64; 2]; 2],
    /// Time until its link out has sent all but the last gradient, from the arrival of the first micro-batch on, in ns; 0 without links.
    pub sending_ns: u64,
}

/// Where stages meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Boundary {
    /// In a node, or nobody knows.
    Anywhere = 0,
    /// Between nodes.
    Apart = 1,
}

impl Relaxation {
    /// Adds all that plans may have which are better than the incumbent's.
    ///
    /// # Errors
    ///
    /// Too many, or a limit.
    pub(super) fn add_stages(
        &mut self,
        options: &dyn StageOptions,
        incumbent: &Incumbent,
    ) -> Result<(), StoppedBy> {
        let control = incumbent.control;
        let upper_ns = u128::from(incumbent.target_ns());
        let most = MOST_STAGES.min(control.room_bytes() / (2 * size_of::<Stage>()));
        let mut count = 0;
        for to in 1..self.ideals.sets.len() {
            control.check_limits()?;
            // Both only grow with the stage.
            let may_take = |from: usize, stage_ns: u64, micro_batches: u64| {
                u128::from(self.work_ns[from]) + u128::from(micro_batches) * u128::from(stage_ns) <= upper_ns
            };
            let least_share = self.micro_batches.div_ceil(options.most_replicas());
            let may_be = |from: &usize| may_take(*from, self.work_ns[to] - self.work_ns[*from], least_share);
            for from in self.ideals.inside_while(to, |from| may_be(&from)) {
                let members = self.ideals.between(from, to);
                let ways = options.options(&members);
                if ways.is_empty() {
                    continue;
                }
                let place = |item: usize| match [from, to].map(|ideal| self.ideals.sets[ideal].contains(item))
                {
                    [true, _] => Ordering::Less,
                    [false, true] => Ordering::Equal,
                    [false, false] => Ordering::Greater,
                };
                for ([before, behind], cost) in &costs(options, &members, place) {
                    let stages = ways.iter().map(|way| self.stage((to, *behind), way, cost));
                    let stages =
                        stages.filter(|stage| may_take(from, stage.load_ns, self.share_of(&stage.way)));
                    let stages: Vec<Stage> = stages.collect();
                    count += stages.len();
                    self.stages[from][*before as usize].extend(stages);
                }
            }
            if count > most {
                return Err(StoppedBy::SizeLimit);
            }
        }
        Ok(())
    }

    /// Adds all between cells that plans may have which are better than the incumbent's.
    ///
    /// # Errors
    ///
    /// Too many, or a limit.
    pub(super) fn add_stages_of_cells(
        &mut self,
        cells: &Cells,
        incumbent: &Incumbent,
    ) -> Result<(), StoppedBy> {
        let upper_ns = u128::from(incumbent.target_ns());
        let most = MOST_STAGES.min(incumbent.control.room_bytes() / (2 * size_of::<Stage>()));
        let mut count = 0;
        for from in 0..self.all() {
            incumbent.control.check_limits()?;
            let before_ns = u128::from(self.work_ns[from]);
            for to in from + 1..=self.all() {
                let Some([forward_ns, backward_ns, work_ns]) = cells.between_ns(from, to) else {
                    continue;
                };
                if before_ns + u128::from(self.micro_batches) * u128::from(work_ns) <= upper_ns {
                    let way = StageOption {
                        works_ns: [forward_ns, backward_ns],
                        work_ns,
                        most_left: u32::MAX,
                        units: 0,
                        replicas: 1,
                        once_ns: 0,
                        tag: 0,
                    };
                    let stage = self.stage((to, Boundary::Anywhere), &way, &StageCost::default());
                    self.stages[from][Boundary::Anywhere as usize].push(stage);
                    count += 1;
                }
            }
            if count > most {
                return Err(StoppedBy::SizeLimit);
            }
        }
        Ok(())
    }

    fn stage(&self, (to, behind): (usize, Boundary), way: &StageOption, cost: &StageCost) -> Stage {
        let [forward_ns, backward_ns] = way.works_ns;
        let times = [
            forward_ns + cost.forward.communication_ns,
            backward_ns + cost.backward.communication_ns,
        ];
        let load_ns = way.work_ns + cost.forward.communication_ns + cost.backward.communication_ns;
        // On its way a micro-batch has one phase behind the other.
        let worked_ns = match self.late {
            Late::SideBySide => times.iter().sum(),
            Late::BeyondLead | Late::AllButOne => load_ns,
        };
        let sent_ns = cost.forward.link_out_ns + cost.backward.link_out_ns;
        let sending_ns = match sent_ns {
            0 => 0,
            // Something may be sent back only after it has come here and on.
            _ if cost.forward.link_out_ns == 0 => 0,
            _ => times[0] + self.share_of(way) * sent_ns - cost.backward.link_out_ns,
        };
        let (there_ns, back_ns) = (cost.forward.link_out_ns, cost.backward.link_in_ns);
        let on_the_way_ns = match to == self.all() {
            // Between its passes both links of the last stage work side by side.
            true => there_ns.max(back_ns),
            false => there_ns + back_ns,
        };
        Stage {
            to: to as u32,
            behind,
            way: *way,
            times,
            load_ns,
            latency_ns: worked_ns + on_the_way_ns,
            links_ns: [cost.forward, cost.backward].map(|pass| [pass.link_in_ns, pass.link_out_ns]),
            sending_ns,
        }
    }
}

impl Stage {
    /// Its passes as they run, each part at least.
    pub(in crate::exact::iteration) fn passes(&self) -> [PhaseTimes; 2] {
        [0, 1].map(|pass| {
            let [in_ns, out_ns] = self.links_ns[pass];
            PhaseTimes {
                in_ns,
                work_ns: self.times[pass],
                out_ns,
            }
        })
    }
}

/// What transfers cost a stage at least, by where it begins and ends.
///
/// * `place`: where an item lies.
fn costs(
    options: &dyn StageOptions,
    members: &[usize],
    place: impl Fn(usize) -> Ordering,
) -> Vec<([Boundary; 2], StageCost)> {
    let pipeline = options.pipeline();
    let inside = |item: usize| place(item).is_eq();
    let Some((_, apart)) = options.between_nodes() else {
        return vec![(
            [Boundary::Anywhere; 2],
            cost::stage_cost(pipeline, members, inside),
        )];
    };
    let both = [Boundary::Anywhere, Boundary::Apart];
    let pairs = both
        .into_iter()
        .flat_map(|before| both.map(|behind| [before, behind]));
    let with_cost = |ends: [Boundary; 2]| {
        let is_apart = |other: usize| match place(other) {
            Ordering::Less => ends[0] == Boundary::Apart,
            Ordering::Equal => false,
            Ordering::Greater => ends[1] == Boundary::Apart,
        };
        // Of several it takes the link that goes farthest.
        let paid = |t: usize, side: Side| match side {
            Side::Producer if pipeline.transfers[t].consumers.iter().any(|&to| is_apart(to)) => {
                &apart.transfers[t]
            }
            Side::Consumer if is_apart(pipeline.transfers[t].producer) => &apart.transfers[t],
            Side::Producer | Side::Consumer => &pipeline.transfers[t],
        };
        (ends, cost::stage_cost_by(pipeline, members, inside, paid))
    };
    pairs.map(with_cost).collect()
}
