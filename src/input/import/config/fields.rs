//! Fields of a configuration, and what is wrong with them. Reading goes on after a fault, so that one error names all of them.

use std::cell::RefCell;

use serde_json::{Map, Value};

use crate::model::fault::{Fault, FaultKind};

/// The largest size: products of two stay exact, and no list of layers fills the memory.
const MOST: u64 = 1 << 24;

/// The most layers.
const MOST_LAYERS: u64 = 10_000;

/// What a class assumes where a field is absent.
pub(super) type Defaults = &'static [(&'static str, f64)];

/// Other names of fields: that of ours, and theirs.
pub(super) type Names = &'static [(&'static str, &'static str)];

/// An object of a configuration.
pub(super) struct Fields<'a> {
    object: &'a Map<String, Value>,
    /// What stands before its fields' names in faults: empty, or `text_config.`.
    at: &'static str,
    defaults: Defaults,
    names: Names,
    faults: RefCell<Vec<Fault>>,
}

impl<'a> Fields<'a> {
    /// The fields of an object.
    pub(super) fn new(
        object: &'a Map<String, Value>,
        at: &'static str,
        defaults: Defaults,
        names: Names,
    ) -> Self {
        Self {
            object,
            at,
            defaults,
            names,
            faults: RefCell::default(),
        }
    }

    /// What was wrong so far.
    pub(super) fn faults(self) -> Vec<Fault> {
        self.faults.into_inner()
    }

    /// The value of a field by our name or theirs; nothing where it is absent or `null`.
    fn value(&self, name: &str) -> Option<(&str, &'a Value)> {
        let theirs = self
            .names
            .iter()
            .filter(|(ours, _)| *ours == name)
            .map(|(_, theirs)| *theirs);
        let mut found = theirs
            .chain([name])
            .filter_map(|name| self.object.get_key_value(name));
        found
            .find(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.as_str(), value))
    }

    pub(super) fn fault(&self, name: &str, kind: FaultKind) {
        let at = format!("{}{name}", self.at);
        let mut faults = self.faults.borrow_mut();
        if !faults.iter().any(|fault| fault.at.to_string() == at) {
            faults.push(Fault::new(at, kind));
        }
    }

    fn wrong(&self, name: &str, found: &Value, expected: &str) {
        let kind = FaultKind::WrongType {
            found: brief(found),
            expected: expected.into(),
        };
        self.fault(name, kind);
    }

    /// Whether a field is there, be it as `null`.
    pub(super) fn has(&self, name: &str) -> bool {
        self.object.contains_key(name)
    }

    /// A size, where it is said or its class assumes one.
    pub(super) fn maybe(&self, name: &str) -> Option<f64> {
        let Some((written, value)) = self.value(name) else {
            let assumed = self.defaults.iter().find(|(of, _)| *of == name);
            // `null` says that there is none.
            return assumed.filter(|_| !self.has(name)).map(|(_, size)| *size);
        };
        match value.as_u64().filter(|size| *size <= MOST) {
            Some(size) => Some(size as f64),
            None => {
                self.wrong(written, value, "a whole number of at most 16,777,216");
                None
            }
        }
    }

    /// A size that must be said, and is above 0.
    pub(super) fn size(&self, name: &str) -> f64 {
        match self.maybe(name) {
            Some(size) if size > 0.0 => size,
            Some(found) => {
                let expected = "a size above 0";
                self.fault(name, FaultKind::BadNumber { found, expected });
                1.0
            }
            None => {
                let kind = FaultKind::Missing {
                    what: format!("`{name}`"),
                    expected: "a size above 0, which this architecture needs".into(),
                    remedy: "take the whole file of the model, which says it".into(),
                };
                self.fault(name, kind);
                1.0
            }
        }
    }

    /// The number of layers.
    pub(super) fn layers(&self, name: &str) -> usize {
        let layers = self.size(name);
        if layers > MOST_LAYERS as f64 {
            let expected = "at most 10,000 layers";
            self.fault(
                name,
                FaultKind::BadNumber {
                    found: layers,
                    expected,
                },
            );
            return 1;
        }
        layers as usize
    }

    /// A part of a width: heads of it, say.
    pub(super) fn divided(&self, whole: &str, by: &str) -> f64 {
        let (width, parts) = (self.size(whole), self.size(by));
        if width % parts != 0.0 {
            let kind = FaultKind::Contradiction {
                found: format!("{parts} in a `{whole}` of {width}").into(),
                expected: "a number that divides it, or `head_dim`".into(),
            };
            self.fault(by, kind);
        }
        width / parts
    }

    /// Yes or no, where it is said.
    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        let (written, value) = self.value(name)?;
        let flag = value.as_bool();
        if flag.is_none() {
            self.wrong(written, value, "`true` or `false`");
        }
        flag
    }

    /// Whether a field says more than `false`, 0 or nothing.
    pub(super) fn is_set(&self, name: &str) -> bool {
        let value = self.value(name).map(|(_, value)| value);
        value.is_some_and(|value| value.as_bool() != Some(false) && value.as_f64() != Some(0.0))
    }

    /// Text, where it is said.
    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        let (written, value) = self.value(name)?;
        let text = value.as_str();
        if text.is_none() {
            self.wrong(written, value, "text");
        }
        text
    }

    /// A list, where it is said.
    pub(super) fn list(&self, name: &str) -> Option<&'a [Value]> {
        let (written, value) = self.value(name)?;
        let list = value.as_array();
        if list.is_none() {
            self.wrong(written, value, "a list");
        }
        list.map(Vec::as_slice)
    }

    /// An object within, where it is said.
    pub(super) fn object(&self, name: &str) -> Option<&'a Map<String, Value>> {
        let (written, value) = self.value(name)?;
        let object = value.as_object();
        if object.is_none() {
            self.wrong(written, value, "an object");
        }
        object
    }

    /// A list of an element for each layer, where it is said.
    pub(super) fn by_layer(&self, name: &str, layers: usize) -> Option<&'a [Value]> {
        let list = self.list(name)?;
        if list.len() == layers {
            return Some(list);
        }
        let kind = FaultKind::Contradiction {
            found: format!("{} elements for {layers} layers", list.len()).into(),
            expected: "one for each layer".into(),
        };
        self.fault(name, kind);
        None
    }
}

/// A value as a fault shows it.
fn brief(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
        Value::String(text) => format!("`{}`", text.chars().take(40).collect::<String>()),
        other => format!("`{other}`"),
    }
}
