//! Faults of a study, at their line and column.

use std::ops::Range;

use crate::input::source::text::{fault_at, parser_fault};
use crate::model::fault::{Fault, FaultKind};

/// The text of a study, for the places of its faults.
pub(crate) struct Text(pub String);

impl Text {
    /// A fault at a span of bytes.
    pub(crate) fn fault(&self, span: Range<usize>, kind: FaultKind) -> Fault {
        fault_at(&self.0, span, kind)
    }

    /// A fault that a parser put in words.
    pub(crate) fn serde_fault(&self, span: Range<usize>, message: &str) -> Fault {
        self.fault(span, parser_fault(message))
    }

    /// A word that is none of the known ones.
    pub(crate) fn unknown(&self, span: Range<usize>, found: &str, known: &[String]) -> Fault {
        let kind = FaultKind::UnknownValue {
            found: found.into(),
            known: known.to_vec(),
        };
        self.fault(span, kind)
    }
}
