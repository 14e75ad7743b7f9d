//! Plots as SVG: step functions and lines, with what a script needs to tell values under the pointer.

use std::fmt::Write;

use crate::app::report::format::escape_xml;

/// Size of the drawing and of its frame, in pixels.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 46.0;
/// Of the last curve and of the first.
const THIN: f64 = 1.6;
const WIDE: f64 = 5.0;

/// A plot.
pub(super) struct Plot<'a> {
    /// Its name as an anchor.
    pub name: &'a str,
    /// Its name for people.
    pub title: &'a str,
    /// What it shows, in words.
    pub description: String,
    /// What the axes measure.
    pub x: Axis,
    /// See `x`.
    pub y: Axis,
    /// One a method, in the order of the study.
    pub series: Vec<Series>,
}

/// An axis.
#[derive(Clone, Copy)]
pub(super) struct Axis {
    /// Its name.
    pub title: &'static str,
    /// Smallest and largest value shown.
    pub range: (f64, f64),
    /// Whether equal factors are equally far apart.
    pub logarithmic: bool,
    /// Whether values are fractions, shown as percentages.
    pub part: bool,
}

/// A curve.
pub(super) struct Series {
    /// The method.
    pub name: String,
    /// How it is drawn.
    pub look: Look,
    /// Points by x.
    pub points: Vec<(f64, f64)>,
    /// Whether the value holds until the next point; else points are joined and marked.
    pub steps: bool,
    /// Whether it is the lower of two curves of the method.
    pub faint: bool,
}

/// How the curves of a method are drawn: in colour and in dashes, so that either is enough to tell neighbours apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// A method of the registry, by its position among those of the study.
    Registered(usize),
    /// A method from outside, by its position among them: in a colour that no other has.
    Outside(usize),
}

impl Look {
    /// Class of its colour.
    fn color(self) -> String {
        match self {
            Self::Registered(place) => format!("c{}", place % 8),
            Self::Outside(_) => "own".into(),
        }
    }

    /// Class of its dashes: after all colours the dashes are others.
    fn dash(self) -> String {
        match self {
            Self::Registered(place) => format!("d{}", (place + place / 8) % 4),
            Self::Outside(place) => format!("d{}", place % 4),
        }
    }
}

impl Axis {
    /// Where a value lies, from 0 to 1.
    fn place(&self, value: f64) -> f64 {
        let scale = |value: f64| {
            if self.logarithmic {
                value.max(f64::MIN_POSITIVE).ln()
            } else {
                value
            }
        };
        let (from, to) = (scale(self.range.0), scale(self.range.1));
        ((scale(value) - from) / (to - from).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
    }

    /// About six round values within the range.
    fn ticks(&self) -> Vec<f64> {
        let (from, to) = self.range;
        if self.logarithmic && to / from >= 8.0 {
            let decades = (from.log10().floor() as i32)..=(to.log10().ceil() as i32);
            let factors: &[f64] = if to / from > 1e3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
            let all =
                decades.flat_map(|decade| factors.iter().map(move |factor| factor * 10f64.powi(decade)));
            return all
                .filter(|tick| (from..=to * 1.000_001).contains(tick))
                .collect();
        }
        let raw = (to - from) / 5.0;
        let power = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            .find(|step| *step >= raw * 0.999);
        let step = step.unwrap_or(raw);
        let first = (from / step).ceil() as i64;
        let last = (to / step * 1.000_001).floor() as i64;
        (first..=last).map(|at| at as f64 * step).collect()
    }

    fn label(&self, value: f64) -> String {
        let (value, unit) = if self.part {
            (100.0 * value, " %")
        } else {
            (value, "")
        };
        let digits = match value.abs() {
            v if v >= 10.0 || v == 0.0 => 0,
            v if v >= 1.0 => usize::from(v.fract() > 1e-9),
            v if v >= 0.1 => 2,
            _ => 4,
        };
        format!("{value:.digits$}{unit}")
    }
}

impl Plot<'_> {
    /// The figure: heading, drawing, and a legend that a script fills with the values under the pointer.
    pub(super) fn html(&self) -> String {
        let title = escape_xml(self.title);
        let mut out = format!(
            "<figure class=\"plot\" id=\"plot-{}\"><h3>{title}</h3>\n",
            self.name
        );
        let _ = writeln!(
            out,
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" tabindex=\"0\" role=\"img\" aria-label=\"{title}. {}\" data-frame=\"{LEFT} {TOP} \
             {} {}\" data-x=\"{} {} {}\" data-part=\"{} {}\" data-titles=\"{}|{}\">",
            escape_xml(&self.description),
            WIDTH - RIGHT,
            HEIGHT - BOTTOM,
            self.x.range.0,
            self.x.range.1,
            u8::from(self.x.logarithmic),
            u8::from(self.x.part),
            u8::from(self.y.part),
            escape_xml(self.x.title),
            escape_xml(self.y.title),
        );
        out += &self.axes();
        // Where curves coincide, those below are wider and show on both sides of those above.
        let most = self.series.len().max(2) - 1;
        for (at, series) in self.series.iter().enumerate() {
            let width = THIN + (WIDE - THIN) * (most - at.min(most)) as f64 / most as f64;
            out += &self.curve(series, width);
        }
        out += "<line class=\"cursor\" hidden=\"hidden\"/>\n</svg>\n";
        out += "<ul class=\"legend\" aria-live=\"polite\"><li class=\"at\" aria-atomic=\"true\"></li>";
        for series in self.series.iter().filter(|series| !series.faint) {
            let (color, dash) = (series.look.color(), series.look.dash());
            let name = escape_xml(&series.name);
            let _ = write!(
                out,
                "<li data-name=\"{name}\" tabindex=\"0\" aria-atomic=\"true\"><svg width=\"28\" height=\"10\" aria-hidden=\"true\"><path \
                 class=\"line {color} {dash}\" d=\"M1 5H27\"/></svg> {name} <span class=\"value\"></span></li>"
            );
        }
        let _ = writeln!(
            out,
            "</ul>\n<p class=\"save\" hidden=\"hidden\">Save as <button type=\"button\" data-save=\"svg\" aria-label=\"Save {title} as SVG\">SVG</button> \
             <button type=\"button\" data-save=\"png\" aria-label=\"Save {title} as PNG\">PNG</button></p>\n<figcaption>{}</figcaption></figure>",
            escape_xml(&self.description)
        );
        out
    }

    fn pixel(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        (
            LEFT + (right - LEFT) * self.x.place(x),
            bottom - (bottom - TOP) * self.y.place(y),
        )
    }

    fn axes(&self) -> String {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let mut out = String::from("<g class=\"axes\">");
        for tick in self.x.ticks() {
            let (x, _) = self.pixel((tick, self.y.range.0));
            let (label, y) = (self.x.label(tick), bottom + 16.0);
            let _ = write!(
                out,
                "<path d=\"M{x:.1} {TOP}V{bottom}\"/><text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{label}</text>"
            );
        }
        for tick in self.y.ticks() {
            let (_, y) = self.pixel((self.x.range.0, tick));
            let (label, x, base) = (self.y.label(tick), LEFT - 6.0, y + 4.0);
            let _ = write!(
                out,
                "<path d=\"M{LEFT} {y:.1}H{right}\"/><text x=\"{x}\" y=\"{base:.1}\" text-anchor=\"end\">{label}</text>"
            );
        }
        let (middle, below) = ((LEFT + right) / 2.0, HEIGHT - 10.0);
        let side = (TOP + bottom) / 2.0;
        let _ = writeln!(
            out,
            "<text x=\"{middle}\" y=\"{below}\" text-anchor=\"middle\">{}</text><text transform=\"translate(12 {side}) \
             rotate(-90)\" text-anchor=\"middle\">{}</text></g>",
            escape_xml(self.x.title),
            escape_xml(self.y.title)
        );
        out
    }

    fn curve(&self, series: &Series, width: f64) -> String {
        let mut path = String::new();
        let mut data = String::new();
        let mut marks = String::new();
        // What moves the pen by less than this cannot be seen.
        const SEEN: f64 = 0.4;
        let mut pen = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        let last = series.points.len().saturating_sub(1);
        if series.steps {
            pen = self.pixel((self.x.range.0, self.y.range.0));
            let _ = write!(path, "M{:.1} {:.1}", pen.0, pen.1);
        }
        for (at, &point) in series.points.iter().enumerate() {
            let (x, y) = self.pixel(point);
            if at < last && (x - pen.0).abs() < SEEN && (y - pen.1).abs() < SEEN {
                continue;
            }
            pen = (x, y);
            let _ = match (series.steps, path.is_empty()) {
                (true, _) => write!(path, "H{x:.1}V{y:.1}"),
                (false, true) => write!(path, "M{x:.1} {y:.1}"),
                (false, false) => write!(path, "L{x:.1} {y:.1}"),
            };
            let _ = write!(data, "{} {};", short(point.0), short(point.1));
            if !series.steps {
                let _ = write!(
                    marks,
                    "<circle class=\"{}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\"/>",
                    series.look.color()
                );
            }
        }
        if series.steps {
            let _ = write!(path, "H{}", WIDTH - RIGHT);
        }
        let (faint, width) = match series.faint {
            true => (" faint", 1.0),
            false => ("", width),
        };
        let (color, dash) = (series.look.color(), series.look.dash());
        let (name, steps) = (escape_xml(&series.name), u8::from(series.steps));
        let data = data.trim_end_matches(';');
        format!(
            "<path class=\"line {color} {dash}{faint}\" style=\"stroke-width:{width:.1}\" d=\"{path}\" data-name=\"{name}\" data-steps=\"{steps}\" \
             data-points=\"{data}\"/>{marks}\n"
        )
    }
}

/// Five significant digits: more than can be seen.
fn short(value: f64) -> String {
    let text = format!("{value:.4e}");
    text.parse::<f64>().map_or(text, |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        let axis = |from, to, logarithmic| Axis {
            title: "",
            range: (from, to),
            logarithmic,
            part: false,
        };
        assert_eq!(axis(0.0, 1.0, false).ticks().len(), 6);
        assert_eq!(axis(1.0, 10.0, true).ticks(), [1.0, 2.0, 5.0, 10.0]);
        assert_eq!(axis(0.0, 1.0, false).label(0.2), "0.20");
    }
}
