//! Lists of values in a study: `4`, `[2, 4, 8]`, `{ from = 0, count = 100 }`.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::{Spanned, Value};

use super::faults::Text;
use crate::model::fault::{Fault, FaultKind};

/// Named values, each one or several, with their places in the file.
pub(crate) type Axes = BTreeMap<String, Spanned<Value>>;

/// One combination of the values of some axes.
pub(crate) type Point = toml::Table;

/// The values that one entry stands for, in order.
///
/// # Errors
///
/// A range that is no range, or an empty list: nothing would be run.
pub(crate) fn expand(text: &Text, value: &Spanned<Value>) -> Result<Vec<Value>, Fault> {
    let bad = |found: &str| {
        let kind = FaultKind::Contradiction {
            found: found.into(),
            expected: "a value, a list of values, or `{ from = A, count = N }`".into(),
        };
        text.fault(value.span(), kind)
    };
    let values = match value.get_ref() {
        Value::Array(values) => values.clone(),
        Value::Table(table) => match range(table) {
            Some(range) => range.map(Value::Integer).collect(),
            None => return Err(bad("another table")),
        },
        single => vec![single.clone()],
    };
    match values.is_empty() {
        true => Err(bad("an empty list")),
        false => Ok(values),
    }
}

/// `{ from, count }`, or nothing where it is another table.
fn range(table: &Point) -> Option<Range<i64>> {
    let (from, count) = (
        table.get("from")?.as_integer()?,
        table.get("count")?.as_integer()?,
    );
    let end = from.checked_add(count)?;
    (table.len() == 2 && count > 0).then_some(from..end)
}

/// How many values an entry stands for, without listing them; what stands for none counts as one, and [`expand`] says why.
fn count(value: &Spanned<Value>) -> u64 {
    match value.get_ref() {
        Value::Array(values) => values.len().max(1) as u64,
        Value::Table(table) => range(table).map_or(1, |range| range.end.abs_diff(range.start)),
        _ => 1,
    }
}

/// How many combinations [`product`] would make.
pub(crate) fn combinations<'a>(axes: impl IntoIterator<Item = &'a Spanned<Value>>) -> u64 {
    axes.into_iter().map(count).fold(1, u64::saturating_mul)
}

/// All combinations of the values of all axes; the first axis by name changes slowest. Without axes, the one empty point.
///
/// # Errors
///
/// Those of [`expand`], all of them.
pub(crate) fn product(text: &Text, axes: &Axes) -> Result<Vec<Point>, Vec<Fault>> {
    let mut points = vec![Point::new()];
    let mut faults = Vec::new();
    for (name, value) in axes {
        match expand(text, value) {
            Err(fault) => faults.push(fault),
            Ok(values) => {
                let with = |point: &Point| {
                    let mut longer = Vec::with_capacity(values.len());
                    for value in &values {
                        let mut point = point.clone();
                        point.insert(name.clone(), value.clone());
                        longer.push(point);
                    }
                    longer
                };
                points = points.iter().flat_map(with).collect();
            }
        }
    }
    match faults.is_empty() {
        true => Ok(points),
        false => Err(faults),
    }
}

/// A point as a value of a type whose fields are the axes' names.
///
/// # Errors
///
/// A name or value that the type does not have, at the place of that axis.
pub(crate) fn read<T: DeserializeOwned>(text: &Text, axes: &Axes, point: &Point) -> Result<T, Fault> {
    let whole = |point: &Point| T::deserialize(Value::Table(point.clone()));
    whole(point).map_err(|together| {
        // The axis that is wrong on its own is the place of the fault.
        let alone = |(name, value): (&String, &Value)| {
            let alone = Point::from_iter([(name.clone(), value.clone())]);
            let error = whole(&alone).err()?;
            Some(text.serde_fault(span(axes, name), error.message()))
        };
        let culprit = point.iter().find_map(alone);
        culprit.unwrap_or_else(|| text.serde_fault(0..0, together.message()))
    })
}

fn span(axes: &Axes, name: &str) -> Range<usize> {
    axes.get(name).map_or(0..0, Spanned::span)
}
