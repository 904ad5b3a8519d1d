//! A figure, written as SVG mark by mark.
//!
//! Coordinates are pixels from the upper left corner.

use crate::document::escape_html;
use longhaul_model::sanitize::sanitize;
use std::fmt::{self, Write};

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

/// A figure with the marks drawn so far, as SVG.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureSheet {
    pub width: u32,
    pub height: u32,
    marks: String,
}

impl FigureSheet {
    pub fn new(width: f64, height: f64) -> FigureSheet {
        FigureSheet { width: width as u32, height: height as u32, marks: String::new() }
    }

    fn push(&mut self, mark: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.marks.write_fmt(mark);
    }

    /// Draws a filled rectangle between two opposite corners.
    pub fn fill(&mut self, from: (f64, f64), to: (f64, f64), ink: InkColour) {
        self.rectangle(from, to, format_args!("fill=\"{ink}\""));
    }

    pub fn frame(&mut self, from: (f64, f64), to: (f64, f64), ink: InkColour, width: f64) {
        let paint = format_args!("fill=\"none\" stroke=\"{ink}\" stroke-width=\"{width}\"");
        self.rectangle(from, to, paint);
    }

    fn rectangle(&mut self, from: (f64, f64), to: (f64, f64), paint: fmt::Arguments<'_>) {
        let (x, y) = (from.0.min(to.0), from.1.min(to.1));
        let (width, height) = ((to.0 - from.0).abs(), (to.1 - from.1).abs());
        self.push(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" {paint}/>\n"
        ));
    }

    pub fn line(&mut self, points: &[(f64, f64)], ink: InkColour, width: f64) {
        self.polyline(points, ink, format_args!("stroke-width=\"{width}\""));
    }

    /// Draws a dashed straight line.
    pub fn dashes(&mut self, from: (f64, f64), to: (f64, f64), ink: InkColour) {
        self.polyline(
            &[from, to],
            ink,
            format_args!("stroke-width=\"1.5\" stroke-dasharray=\"7\""),
        );
    }

    fn polyline(&mut self, points: &[(f64, f64)], ink: InkColour, stroke: fmt::Arguments<'_>) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.push(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{ink}\" {stroke}/>\n",
            points.join(" ")
        ));
    }

    pub fn dot(&mut self, (x, y): (f64, f64), radius: f64, ink: InkColour, filled: bool) {
        let fill = if filled { ink.to_string() } else { "none".to_owned() };
        self.push(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{fill}\" stroke=\"{ink}\" \
             stroke-width=\"1.5\"/>\n"
        ));
    }

    /// Draws a text, with half its height at the coordinates.
    pub fn text(
        &mut self,
        (x, y): (f64, f64),
        text: impl AsRef<str>,
        size: f64,
        ink: InkColour,
        anchor: TextAnchor,
    ) {
        let (side, turn) = match anchor {
            TextAnchor::Left => ("start", 0),
            TextAnchor::Middle => ("middle", 0),
            TextAnchor::Right => ("end", 0),
            TextAnchor::Rotated => ("middle", 270),
        };
        // Host names are untrusted: unsafe characters could steer a terminal or break the file.
        let text = escape_html(&sanitize(text.as_ref()));
        self.push(format_args!(
            "<text transform=\"translate({x:.1} {y:.1}) rotate({turn})\" text-anchor=\"{side}\" \
             dominant-baseline=\"central\" font-family=\"sans-serif\" font-size=\"{size}\" \
             fill=\"{ink}\">{text}</text>\n"
        ));
    }

    /// Draws the name of a panel.
    pub fn heading(&mut self, at: (f64, f64), text: impl AsRef<str>) {
        self.text(at, text, 16.0, BLACK, TextAnchor::Left);
    }

    /// Draws a label.
    pub fn label(&mut self, at: (f64, f64), text: impl AsRef<str>, anchor: TextAnchor) {
        self.text(at, text, 13.0, BLACK, anchor);
    }

    /// Draws the name of an axis, or another secondary label.
    pub fn faint_label(&mut self, at: (f64, f64), text: impl AsRef<str>, anchor: TextAnchor) {
        self.text(at, text, 13.0, GREY, anchor);
    }

    /// Returns the figure as SVG text.
    pub fn svg(&self) -> String {
        let FigureSheet { width, height, marks } = self;
        format!(
            "<svg width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             xmlns=\"http://www.w3.org/2000/svg\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"{WHITE}\"/>\n{marks}</svg>\n"
        )
    }
}
