//! Small enums whose values have one spelling everywhere.

/// Declares a small enum whose values have one spelling in files, flags and reports.
macro_rules! named_values {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$value_doc])* #[serde(rename = $text)] #[cfg_attr(feature = "cli", value(name = $text))] $value),+
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(match self { $(Self::$value => $text),+ })
            }
        }
    };
}

pub(crate) use named_values;
