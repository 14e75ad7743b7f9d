//! Chunks of devices whose stages are alike: how they lie for each mode and number of chunks.

use std::sync::OnceLock;

use crate::model::degrees::Degrees;
use crate::model::fault::{Fault, FaultKind};
use crate::model::setting;
use crate::model::settings::Settings;
use crate::model::words::words;
use crate::problem::Problem;
use crate::problem::modes::{Chosen, Modes, StageMode};
use crate::problem::virtual_stages::VirtualStages;

/// Chunks of modes that are alike but for the kind of device. A replica of all stages is a row of single devices by itself, and all run side by side.
#[derive(Clone, Debug)]
pub struct ModalChunks {
    /// The modes that the devices of a row may have, one for each kind.
    pub alike: Vec<StageMode>,
    /// Chunks of a device.
    pub virtual_stages: usize,
    /// What is asked of one of the replicas.
    pub settings: Settings,
    /// How they lie, once somebody has asked.
    laid: OnceLock<VirtualStages>,
}

impl ModalChunks {
    /// How they lie on the devices of a replica.
    pub fn laid(&self) -> Option<&VirtualStages> {
        if self.laid.get().is_none() {
            let _ = self.laid.set(VirtualStages::from_settings(&self.settings)?);
        }
        self.laid.get()
    }

    /// Virtual stages that the schedule has no order for, whatever the mode.
    pub(super) fn fault_of_none(settings: &Settings, modes: Option<&Modes>) -> Option<Fault> {
        let is_free = !settings.all_stages && settings.target.is_none();
        let is_asked = settings.may_have_virtual_stages() && !settings.allows_virtual_stages(1);
        let modes = modes.filter(|_| is_asked && is_free)?;
        let kind = FaultKind::Contradiction {
            found: words!(
                "{} micro-batches with {}, in no mode of stages",
                settings.micro_batches.unwrap_or(1).to_string(),
                setting::SCHEDULE.given(settings.schedule)
            ),
            expected: words!(
                "for each replica a multiple of the devices in a row, and no more than 500000 operations, with {}",
                setting::VIRTUAL_STAGES
            ),
        };
        let is_run = !Self::all(settings, modes, false).is_empty();
        (!is_run).then(|| Fault::new(setting::MICRO_BATCHES, kind))
    }

    /// All that plans may be: as many devices in a row as there are stages or devices for, and numbers of chunks that the schedule can run.
    ///
    /// * `fills`: whether there are no more chunks than items.
    pub(super) fn all(settings: &Settings, modes: &Modes, fills: bool) -> Vec<Self> {
        let mut all = Vec::new();
        if !settings.may_have_virtual_stages() {
            return all;
        }
        let most_chunks = modes.most_parts();
        for alike in modes.alike_kinds() {
            let most = alike.iter().map(|mode| modes.most_of(mode)).sum();
            let row = settings.stages.min(most);
            let is_short = settings.all_stages && row < settings.stages;
            let numbers: Vec<usize> = match &settings.rounds {
                _ if row == 0 || is_short => Vec::new(),
                None => vec![settings.virtual_stages],
                Some(Degrees::Only(numbers)) => numbers.clone(),
                // More would be empty, and on one device it is all the same.
                Some(Degrees::Choose) if row == 1 => Vec::new(),
                Some(Degrees::Choose) => (2..=most_chunks / row).collect(),
            };
            let of_number = |virtual_stages: usize| Self {
                alike: alike.clone(),
                virtual_stages,
                settings: settings
                    .with_chunks(row, virtual_stages)
                    .of_replica(alike[0].replicas),
                laid: OnceLock::new(),
            };
            let is_filled = |number: usize| !fills || row * number <= modes.items.len();
            let several = numbers
                .into_iter()
                .filter(|&number| number > 1 && is_filled(number));
            all.extend(
                several
                    .map(of_number)
                    .filter(|of| of.settings.has_order_of_chunks()),
            );
        }
        all
    }
}

impl Problem {
    /// The chunks of such modes, so many for each device, all of which are of one mode; `None` where no plan may have these.
    pub fn chunks_in(&self, chosen: &Chosen) -> Option<&VirtualStages> {
        let is_it = |of: &&ModalChunks| {
            let are_known = chosen.stages.iter().all(|mode| of.alike.contains(mode));
            are_known && of.virtual_stages == chosen.virtual_stages
        };
        let of = self.modal_chunks.iter().find(is_it)?.laid()?;
        let has_one = |chunks: &Vec<usize>| {
            let mode = |&chunk: &usize| chosen.stages.get(chunk);
            chunks.iter().all(|chunk| mode(chunk) == mode(&chunks[0]))
        };
        (chosen.stages.len() == of.chunks() && of.chunks_of.iter().all(has_one)).then_some(of)
    }
}
