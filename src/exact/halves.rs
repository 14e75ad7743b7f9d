//! Two searches of one problem at the same time: when either is told to stop.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::problem::control::Control;

/// One of two searches that run beside each other.
#[derive(Default)]
pub(crate) struct Half {
    /// Whether it has done what it was asked for.
    is_done: AtomicBool,
    /// Whether the other wants no more of it.
    is_cancelled: AtomicBool,
}

impl Half {
    /// What steers it: as given, and it ends when the other wants no more of it.
    pub(crate) fn control<'a>(&'a self, control: &Control<'a>) -> Control<'a> {
        Control {
            cancelled: Some(&self.is_cancelled),
            ..control.clone()
        }
    }

    /// Records that it has done what it was asked for; whether it may do more. It may not once it is over, which ends the other too, or once
    /// the other has done what it was asked for.
    pub(crate) fn may_go_on(&self, other: &Self, is_over: bool) -> bool {
        self.is_done.store(true, Ordering::SeqCst);
        let ends = is_over || other.is_done.load(Ordering::SeqCst);
        if ends {
            other.is_cancelled.store(true, Ordering::SeqCst);
        }
        !ends
    }
}
