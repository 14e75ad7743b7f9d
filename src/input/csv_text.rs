//! Names in CSV that a spreadsheet would take for formulas.
//!
//! Spreadsheets run what begins with `=`, `+`, `-` or `@`, whoever wrote it, and a network may call a layer
//! `=HYPERLINK("...")`. An apostrophe before it makes it text, for all of them. Numbers stay numbers. Our own readers take the
//! apostrophe away, and a name that begins with apostrophes before such a character gets one more, so that every name comes back.
//!
//! See *CSV Injection* of the Open Web Application Security Project, <https://owasp.org/www-community/attacks/CSV_Injection>.

/// What makes text.
const MARK: char = '\'';

/// Whether a spreadsheet would run a text, were it not for marks before it.
fn is_formula(text: &str) -> bool {
    let text = text.trim_start_matches(MARK);
    text.starts_with(['=', '+', '-', '@', '\t', '\r'])
}

/// A field as text, where a spreadsheet would run it. Numbers are as they are.
#[cfg(feature = "cli")]
fn marked(field: &str) -> std::borrow::Cow<'_, str> {
    match is_formula(field) && field.parse::<f64>().is_err() {
        true => format!("{MARK}{field}").into(),
        false => field.into(),
    }
}

/// What a field that was written here stands for.
pub(crate) fn unmarked(field: &str) -> &str {
    match field.strip_prefix(MARK) {
        Some(rest) if is_formula(rest) => rest,
        _ => field,
    }
}

/// What a writer of CSV has written, with every name as text.
///
/// # Errors
///
/// What the writer reports; writing to memory gives it no cause.
#[cfg(feature = "cli")]
pub(crate) fn written(writer: csv::Writer<Vec<u8>>) -> Result<String, csv::Error> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let plain = text(writer.into_inner().map_err(|error| error.into_error())?);
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .from_reader(plain.as_bytes());
    let records = reader.records().collect::<Result<Vec<_>, _>>()?;
    if !records.iter().flatten().any(is_formula) {
        return Ok(plain);
    }
    let mut marking = csv::Writer::from_writer(Vec::new());
    for record in &records {
        marking.write_record(record.iter().map(|field| marked(field).into_owned()))?;
    }
    Ok(text(marking.into_inner().map_err(|error| error.into_error())?))
}

#[cfg(all(test, feature = "cli"))]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_and_numbers_stay() {
        for name in [
            "=1+1", "+cmd", "-x", "@sum", "\tx", "'=1", "''-a", "'plain", "a=b", "", "'",
        ] {
            assert_eq!(unmarked(&marked(name)), name);
            assert!(
                !marked(name).starts_with(['=', '+', '-', '@', '\t', '\r']),
                "{name}"
            );
        }
        for number in ["-0.5", "+3", "-1e-9", "-inf"] {
            assert_eq!(marked(number), number);
        }
        assert_eq!(marked("=A1"), "'=A1");
        assert_eq!(marked("conv-1"), "conv-1");
    }
}
