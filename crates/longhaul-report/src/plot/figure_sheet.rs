//! A figure as a list of marks, written as SVG.
//!
//! Coordinates are pixels from the upper left corner.

use crate::document::escape_html;
use longhaul_model::sanitize::sanitize;
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InkColour(pub u8, pub u8, pub u8);

impl fmt::Display for InkColour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

pub const BLACK: InkColour = InkColour(0x20, 0x20, 0x24);
pub const GREY: InkColour = InkColour(0x6b, 0x6b, 0x73);
pub const FAINT: InkColour = InkColour(0xdd, 0xdd, 0xe2);
pub const WHITE: InkColour = InkColour(0xff, 0xff, 0xff);

/// The point of a text that is at its coordinates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextAnchor {
    Left,
    Middle,
    Right,
    /// The middle of a text that is read from below.
    Rotated,
}

#[derive(Debug, Clone, PartialEq)]
pub enum FigureMark {
    Fill {
        from: (f64, f64),
        to: (f64, f64),
        ink: InkColour,
    },
    Frame {
        from: (f64, f64),
        to: (f64, f64),
        ink: InkColour,
        width: f64,
    },
    Line {
        points: Vec<(f64, f64)>,
        ink: InkColour,
        width: f64,
    },
    Dot {
        at: (f64, f64),
        radius: f64,
        ink: InkColour,
        filled: bool,
    },
    /// A text; `at` is at half its height.
    Text {
        at: (f64, f64),
        text: String,
        size: f64,
        ink: InkColour,
        anchor: TextAnchor,
    },
}

/// A figure as a list of marks.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureSheet {
    pub width: u32,
    pub height: u32,
    pub marks: Vec<FigureMark>,
}

impl FigureSheet {
    pub fn new(width: f64, height: f64) -> FigureSheet {
        FigureSheet { width: width as u32, height: height as u32, marks: Vec::new() }
    }

    pub fn fill(&mut self, from: (f64, f64), to: (f64, f64), ink: InkColour) {
        self.marks.push(FigureMark::Fill { from, to, ink });
    }

    pub fn frame(&mut self, from: (f64, f64), to: (f64, f64), ink: InkColour, width: f64) {
        self.marks.push(FigureMark::Frame { from, to, ink, width });
    }

    pub fn line(&mut self, points: &[(f64, f64)], ink: InkColour, width: f64) {
        let points = points.to_vec();
        self.marks.push(FigureMark::Line { points, ink, width });
    }

    /// Draws a dashed straight line.
    pub fn dashes(&mut self, from: (f64, f64), to: (f64, f64), ink: InkColour) {
        const DASH: f64 = 7.0;
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let steps = (dx.hypot(dy) / DASH) as u32;
        let at = |step: u32| {
            let part = f64::from(step) / f64::from(steps.max(1));
            (from.0 + dx * part, from.1 + dy * part)
        };
        for step in (0..steps).step_by(2) {
            self.line(&[at(step), at(step + 1)], ink, 1.5);
        }
    }

    pub fn dot(&mut self, at: (f64, f64), radius: f64, ink: InkColour, filled: bool) {
        self.marks.push(FigureMark::Dot { at, radius, ink, filled });
    }

    pub fn text(
        &mut self,
        at: (f64, f64),
        text: impl Into<String>,
        size: f64,
        ink: InkColour,
        anchor: TextAnchor,
    ) {
        // Host names are untrusted: unsafe characters could steer a terminal or break the file.
        let text = sanitize(&text.into()).into_owned();
        self.marks.push(FigureMark::Text { at, text, size, ink, anchor });
    }

    /// Draws the name of a panel.
    pub fn heading(&mut self, at: (f64, f64), text: impl Into<String>) {
        self.text(at, text, 16.0, BLACK, TextAnchor::Left);
    }

    /// Draws a label.
    pub fn label(&mut self, at: (f64, f64), text: impl Into<String>, anchor: TextAnchor) {
        self.text(at, text, 13.0, BLACK, anchor);
    }

    /// Draws the name of an axis, or another secondary label.
    pub fn faint_label(&mut self, at: (f64, f64), text: impl Into<String>, anchor: TextAnchor) {
        self.text(at, text, 13.0, GREY, anchor);
    }

    /// Returns the figure as SVG text.
    pub fn svg(&self) -> String {
        let (width, height) = (self.width, self.height);
        let marks: String = self.marks.iter().map(format_mark).collect();
        format!(
            "<svg width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             xmlns=\"http://www.w3.org/2000/svg\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"{WHITE}\"/>\n{marks}</svg>\n"
        )
    }
}

/// Returns a mark as one line of SVG.
fn format_mark(mark: &FigureMark) -> String {
    match mark {
        FigureMark::Fill { from, to, ink } => {
            format!("<rect {} fill=\"{ink}\"/>\n", format_corners(*from, *to))
        }
        FigureMark::Frame { from, to, ink, width } => {
            let corners = format_corners(*from, *to);
            format!("<rect {corners} fill=\"none\" stroke=\"{ink}\" stroke-width=\"{width}\"/>\n")
        }
        FigureMark::Line { points, ink, width } => {
            let points: Vec<String> =
                points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            format!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{ink}\" \
                 stroke-width=\"{width}\"/>\n",
                points.join(" ")
            )
        }
        FigureMark::Dot { at: (x, y), radius, ink, filled } => {
            let fill = if *filled { ink.to_string() } else { "none".to_owned() };
            format!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{fill}\" \
                 stroke=\"{ink}\" stroke-width=\"1.5\"/>\n"
            )
        }
        FigureMark::Text { at: (x, y), text, size, ink, anchor } => {
            let (side, turn) = match anchor {
                TextAnchor::Left => ("start", 0),
                TextAnchor::Middle => ("middle", 0),
                TextAnchor::Right => ("end", 0),
                TextAnchor::Rotated => ("middle", 270),
            };
            format!(
                "<text transform=\"translate({x:.1} {y:.1}) rotate({turn})\" \
                 text-anchor=\"{side}\" dominant-baseline=\"central\" \
                 font-family=\"sans-serif\" font-size=\"{size}\" fill=\"{ink}\">{}</text>\n",
                escape_html(text)
            )
        }
    }
}

/// Returns the attributes of a rectangle between two opposite corners.
fn format_corners(from: (f64, f64), to: (f64, f64)) -> String {
    format!(
        "x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"",
        from.0.min(to.0),
        from.1.min(to.1),
        (to.0 - from.0).abs(),
        (to.1 - from.1).abs()
    )
}
