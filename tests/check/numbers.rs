//! Plans that a checker accepts as they are, and with no number changed.

use serde_json::{Value, json};
use stagecut::check::check;
use stagecut::instance::Instance;
use stagecut::plan::Plan;
use stagecut::settings::Settings;

/// A plan passes, and with any number of its objective and of these parts changed it does not. Says how many there are.
pub fn accepts_no_other(instance: &Instance, settings: &Settings, plan: &Plan, parts: &[&str]) -> usize {
    let violations = check(instance, settings, plan);
    assert!(violations.is_empty(), "{violations:#?}");
    let whole = serde_json::to_value(plan).expect("a plan");
    let mut numbers = vec!["/objective_ms".to_owned()];
    for part in parts {
        list(&whole[part], &format!("/{part}"), &mut numbers);
    }
    for place in &numbers {
        for other in others(whole.pointer(place).expect("a number")) {
            let mut changed = whole.clone();
            *changed.pointer_mut(place).expect("a number") = other;
            let changed: Plan = serde_json::from_value(changed).expect("a plan");
            let violations = check(instance, settings, &changed);
            assert!(!violations.is_empty(), "{place} may be another");
        }
    }
    numbers.len()
}

/// Numbers beside one.
fn others(number: &Value) -> Vec<Value> {
    match number.as_u64() {
        Some(0) => vec![json!(1)],
        Some(count) => vec![json!(count + 1), json!(count - 1)],
        None => vec![json!(number.as_f64().expect("a number") + 0.001)],
    }
}

/// Where the numbers are.
fn list(value: &Value, place: &str, numbers: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields
            .iter()
            .for_each(|(name, value)| list(value, &format!("{place}/{name}"), numbers)),
        Value::Array(values) => values
            .iter()
            .enumerate()
            .for_each(|(at, value)| list(value, &format!("{place}/{at}"), numbers)),
        Value::Number(_) => numbers.push(place.to_owned()),
        _ => {}
    }
}
