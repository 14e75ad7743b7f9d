//! What a model leaves open and whoever reads it says: lengths along symbolic axes, and how often a loop runs.

use std::cell::RefCell;

use crate::model::fault::{Fault, FaultKind};
use crate::model::setting;
use crate::model::words::words;

/// What is said of a model beside its file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Lengths of symbolic dimensions, by their names.
    pub dims: Vec<(String, u32)>,
    /// How often a loop runs that does not say so itself.
    pub trips: Option<u32>,
}

thread_local! {
    /// What is said of the models that this thread reads, and whether one of them listened.
    static SAID: RefCell<(Said, bool)> = RefCell::default();
}

/// Does some work in which models are read as is said.
#[cfg(feature = "cli")]
pub fn saying<T>(said: Said, work: impl FnOnce() -> T) -> T {
    struct Before((Said, bool));
    impl Drop for Before {
        fn drop(&mut self) {
            SAID.replace(std::mem::take(&mut self.0));
        }
    }
    let _before = Before(SAID.replace((said, false)));
    work()
}

/// What is said of the model that is read now.
#[cfg(feature = "onnx")]
pub(super) fn said() -> Said {
    SAID.with_borrow_mut(|(said, heard)| {
        *heard = true;
        said.clone()
    })
}

/// A fault where something is said and no model listened.
pub(crate) fn unheard() -> Option<Fault> {
    SAID.with_borrow(|(said, heard)| {
        if *heard || *said == Said::default() {
            return None;
        }
        let option = match said.trips {
            Some(_) if said.dims.is_empty() => setting::TRIP_COUNT,
            _ => setting::DIM,
        };
        let kind = FaultKind::Conflict {
            found: words!("{}, which is for ONNX models", option),
            expected: "a file that leaves lengths or counts open".into(),
            remedy: words!("drop {}", option),
        };
        Some(Fault::new(option, kind))
    })
}
