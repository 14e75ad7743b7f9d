//! Colours of stages, and of what they do.

/// The palette of M. Okabe and K. Ito, *Color universal design*, 2008, without black: told apart with every common kind
/// of colour blindness. Ordered so that neighbours in a pipeline differ in lightness too.
const OKABE_ITO: [[u8; 3]; 7] = [
    [0xe6, 0x9f, 0x00],
    [0x56, 0xb4, 0xe9],
    [0xd5, 0x5e, 0x00],
    [0xf0, 0xe4, 0x42],
    [0x00, 0x72, 0xb2],
    [0xcc, 0x79, 0xa7],
    [0x00, 0x9e, 0x73],
];

/// Colours of one stage, as `#rrggbb`; dark text stands out on all but the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Colors {
    /// For boxes.
    pub fill: String,
    /// For the outline of boxes.
    pub line: String,
    /// For large areas behind boxes.
    pub pale: String,
}

impl Colors {
    /// Those of layers without a stage: grey.
    pub(crate) fn none() -> Self {
        Self::new([0x99, 0x99, 0x99])
    }

    /// Those of a stage, from 1: Okabe and Ito's, then hues a golden angle apart, so that any number of stages stays as
    /// different as it can.
    pub(crate) fn stage(index: usize) -> Self {
        let at = index.saturating_sub(1);
        let base = OKABE_ITO.get(at).copied();
        Self::new(base.unwrap_or_else(|| generated(at - OKABE_ITO.len())))
    }

    /// Those of forward propagation in a timeline.
    pub(crate) fn forward() -> Self {
        Self::new(OKABE_ITO[1])
    }

    /// Those of backward propagation in a timeline.
    pub(crate) fn backward() -> Self {
        Self::new(OKABE_ITO[0])
    }

    /// Those of gradients of weights in a timeline.
    pub(crate) fn weight() -> Self {
        Self::new(OKABE_ITO[5])
    }

    /// Those of transfers in a timeline.
    pub(crate) fn transfer() -> Self {
        Self::new(OKABE_ITO[6])
    }

    fn new(base: [u8; 3]) -> Self {
        Self {
            fill: hex(blend(base, WHITE, 0.40)),
            line: hex(blend(base, BLACK, 0.35)),
            pale: hex(blend(base, WHITE, 0.86)),
        }
    }
}

const WHITE: [u8; 3] = [255; 3];
const BLACK: [u8; 3] = [0; 3];

/// The n-th hue by golden angles, in three lightnesses in turn.
fn generated(n: usize) -> [u8; 3] {
    const GOLDEN_ANGLE_DEGREES: f64 = 137.507_764;
    const LIGHTNESS: [f64; 3] = [0.55, 0.40, 0.70];
    let hue = (270.0 + n as f64 * GOLDEN_ANGLE_DEGREES) % 360.0;
    hsl(hue, 0.60, LIGHTNESS[n % LIGHTNESS.len()])
}

/// Hue, saturation and lightness as red, green and blue, by the formula of the CSS Color Module Level 4.
fn hsl(hue_degrees: f64, saturation: f64, lightness: f64) -> [u8; 3] {
    let chroma = saturation * lightness.min(1.0 - lightness);
    [0.0, 8.0, 4.0].map(|offset| {
        let k = (offset + hue_degrees / 30.0) % 12.0;
        let value = lightness - chroma * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0);
        (255.0 * value).round() as u8
    })
}

/// `color` with the given part of `other` mixed in.
fn blend(color: [u8; 3], other: [u8; 3], part: f64) -> [u8; 3] {
    std::array::from_fn(|at| {
        let mixed = f64::from(color[at]) * (1.0 - part) + f64::from(other[at]) * part;
        mixed.round() as u8
    })
}

fn hex([red, green, blue]: [u8; 3]) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance by the Web Content Accessibility Guidelines 2.1.
    fn luminance(hex: &str) -> f64 {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
            match value <= 0.03928 {
                true => value / 12.92,
                false => ((value + 0.055) / 1.055).powf(2.4),
            }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    /// The guidelines ask for a contrast of 4.5 for text.
    #[test]
    fn dark_text_stands_out_on_every_stage() {
        let text = luminance(crate::app::report::svg::INK);
        for index in 1..200 {
            let fill = luminance(&Colors::stage(index).fill);
            assert!((fill + 0.05) / (text + 0.05) >= 4.5, "stage {index}");
        }
    }

    #[test]
    fn the_first_stages_all_differ() {
        let fills: std::collections::BTreeSet<String> = (1..=64).map(|k| Colors::stage(k).fill).collect();
        assert_eq!(fills.len(), 64);
    }
}
