//! Options as the command line has them: `--memory-limit 8GB`.

use crate::model::setting;
use crate::model::words::{Asked, Setting};

/// An option's name on the command line.
pub(crate) fn flag(setting: Setting) -> String {
    match setting {
        // A word that programming languages keep for themselves.
        setting::FOR => "--for".to_owned(),
        // Files alone say them.
        setting::CONSTRAINTS => setting.name().to_owned(),
        _ => format!("--{}", setting.name().replace('_', "-")),
    }
}

/// Options as they are typed.
pub(crate) fn as_flags(asked: &Asked) -> String {
    let typed = asked.0.iter().map(|(setting, value)| match value {
        None => flag(*setting),
        Some(value) => format!("{} {value}", flag(*setting)),
    });
    typed.collect::<Vec<_>>().join(" ")
}
