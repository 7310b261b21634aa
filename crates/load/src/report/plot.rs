//! Plots as inline SVG: lines over time, and bars.

/// The size of a plot, in pixels.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 260.0;

/// Room for the axis labels.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 40.0;

/// A line of a plot.
pub(super) struct PlotLine<'a> {
    pub(super) name: &'a str,
    /// The CSS class that colours it.
    pub(super) class: &'a str,
    pub(super) points: Vec<(f64, f64)>,
}

/// Lines over a common axis. Latencies span powers of ten, so they need a `logarithmic` one.
pub(super) fn lines(x_label: &str, y_label: &str, logarithmic: bool, lines: &[PlotLine<'_>]) -> String {
    let all = || lines.iter().flat_map(|line| line.points.iter());
    let x_max = all().map(|point| point.0).fold(0.0, f64::max).max(1e-9);
    let y_max = all().map(|point| point.1).fold(0.0, f64::max);
    let y_min = all().map(|point| point.1).filter(|&y| y > 0.0).fold(f64::INFINITY, f64::min);
    let scale = if logarithmic { Scale::logarithmic(y_min, y_max) } else { Scale::linear(y_max) };
    let x = |value: f64| LEFT + value / x_max * (WIDTH - LEFT - RIGHT);

    let mut out = open();
    scale.draw(&mut out, y_label);
    for tick in steps(x_max) {
        text(&mut out, x(tick), HEIGHT - BOTTOM + 16.0, "middle", &number(tick));
    }
    text(&mut out, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 6.0, "middle", x_label);
    for line in lines {
        let points = line.points.iter().map(|&(at, value)| format!("{:.1},{:.1}", x(at), scale.y(value)));
        let points: Vec<String> = points.collect();
        out += &format!("<polyline class=\"line {}\" points=\"{}\"/>", line.class, points.join(" "));
    }
    out.push_str("</svg>");
    let legend: String =
        lines.iter().map(|line| format!("<span class=\"key {}\">{}</span>", line.class, line.name)).collect();
    format!("{out}<p class=\"legend\">{legend}</p>")
}

/// Adjacent bars, each with its label and its height.
pub(super) fn bars(x_label: &str, y_label: &str, bars: &[(String, f64)]) -> String {
    let y_max = bars.iter().map(|bar| bar.1).fold(0.0, f64::max);
    let scale = Scale::linear(y_max);
    let step = (WIDTH - LEFT - RIGHT) / bars.len().max(1) as f64;
    // There is no room for the label of every bar.
    let every = bars.len().div_ceil(10).max(1);

    let mut out = open();
    scale.draw(&mut out, y_label);
    for (index, (label, value)) in bars.iter().enumerate() {
        let left = LEFT + step * index as f64;
        let top = scale.y(*value);
        out += &format!(
            "<rect class=\"bar\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{label}: {value}</title></rect>",
            (step - 1.0).max(0.5),
            HEIGHT - BOTTOM - top
        );
        if index.is_multiple_of(every) {
            text(&mut out, left + step / 2.0, HEIGHT - BOTTOM + 16.0, "middle", label);
        }
    }
    text(&mut out, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 6.0, "middle", x_label);
    out.push_str("</svg>");
    out
}

/// The vertical axis.
struct Scale {
    logarithmic: bool,
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

impl Scale {
    fn linear(max: f64) -> Scale {
        let max = if max > 0.0 { max } else { 1.0 };
        Scale { logarithmic: false, low: 0.0, high: max * 1.05, ticks: steps(max) }
    }

    /// From the power of ten below the smallest value to the one above the largest.
    fn logarithmic(min: f64, max: f64) -> Scale {
        let (min, max) = if min.is_finite() && max > 0.0 { (min, max) } else { (1.0, 10.0) };
        let low = min.log10().floor();
        let high = max.log10().ceil().max(low + 1.0);
        let ticks = (low as i32..=high as i32).map(|power| 10f64.powi(power)).collect();
        Scale { logarithmic: true, low, high, ticks }
    }

    fn y(&self, value: f64) -> f64 {
        let value = if self.logarithmic { value.max(1e-9).log10().max(self.low) } else { value };
        let share = (value - self.low) / (self.high - self.low);
        HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)
    }

    fn draw(&self, out: &mut String, label: &str) {
        for &tick in &self.ticks {
            let y = self.y(tick);
            let right = WIDTH - RIGHT;
            *out += &format!("<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
            text(out, LEFT - 6.0, y + 4.0, "end", &number(tick));
        }
        let middle = (TOP + HEIGHT - BOTTOM) / 2.0;
        *out += &format!(
            "<text class=\"axis\" transform=\"rotate(-90 14 {middle})\" x=\"14\" y=\"{middle}\" text-anchor=\"middle\">{label}</text>"
        );
    }
}

fn open() -> String {
    format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">")
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    *out += &format!("<text class=\"axis\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
}

/// Four to eight round numbers from 0 to `max`.
fn steps(max: f64) -> Vec<f64> {
    let rough = max / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].iter().map(|step| step * power).find(|&step| step >= rough).unwrap_or(rough);
    (0..=(max / step) as u32).map(|turn| f64::from(turn) * step).collect()
}

/// A number without trailing zeros.
fn number(value: f64) -> String {
    if value >= 10_000.0 {
        format!("{}k", number(value / 1_000.0))
    } else {
        let text = format!("{value:.3}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_numbers() {
        assert_eq!(steps(25.0), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0]);
        assert_eq!(steps(1.3), [0.0, 0.5, 1.0]);
        assert_eq!([number(0.5), number(20.0), number(25_000.0), number(0.001)], ["0.5", "20", "25k", "0.001"]);
    }

    #[test]
    fn a_logarithmic_axis_covers_whole_powers_of_ten() {
        let scale = Scale::logarithmic(0.3, 42.0);
        assert_eq!(scale.ticks, [0.1, 1.0, 10.0, 100.0]);
        assert_eq!(scale.y(100.0), TOP);
        assert_eq!(scale.y(0.1), HEIGHT - BOTTOM);
        assert_eq!(scale.y(0.0), HEIGHT - BOTTOM, "every value is inside the plot");
    }
}
