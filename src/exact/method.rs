//! The exact methods by name; what each is made of stands with the steps of [`super::homogeneous`] and [`super::heterogeneous`].

/// An exact method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Everything: incumbents, bounds, ideals while they are few, then the program within windows.
    Exact,
    /// The same without the dynamic program over ideals.
    Milp,
    /// The same without the mixed-integer program.
    Ideals,
    /// The program alone, as a textbook would have it: the yardstick.
    Textbook,
}

/// An exact method as the command line lists it.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The method.
    pub method: Method,
    /// Its name.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
}

/// All exact methods.
pub(crate) const METHODS: &[Entry] = &[
    Entry {
        method: Method::Exact,
        name: "exact",
        summary: "incumbents, bounds, ideals, and the program within windows",
        source: "ours",
    },
    Entry {
        method: Method::Milp,
        name: "milp",
        summary: "the mixed-integer program behind incumbents, bounds and windows",
        source: "ours, on HiGHS",
    },
    Entry {
        method: Method::Ideals,
        name: "ideals",
        summary: "the dynamic program over ideals behind incumbents and bounds",
        source: "after Tarnawski et al., NeurIPS 2020",
    },
    Entry {
        method: Method::Textbook,
        name: "textbook",
        summary: "the mixed-integer program alone, without presolve: a yardstick",
        source: "textbook, on HiGHS",
    },
];

impl Method {
    /// Its entry in [`METHODS`].
    pub fn entry(self) -> &'static Entry {
        let own = METHODS.iter().find(|entry| entry.method == self);
        own.unwrap_or(&METHODS[0])
    }
}
