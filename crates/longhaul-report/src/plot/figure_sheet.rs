//! A figure as a list of marks, painted in the same way as SVG or PNG.
//!
//! Coordinates are pixels from the upper left corner; a PNG has twice as many of each.

use longhaul_model::sanitize::sanitize;
use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color, FontStyle, FontTransform, IntoFont, RGBColor, ShapeStyle, TextStyle, register_font,
};
use std::fmt::Display;

/// The maximum number of pixels of a sheet whose PNG is painted at double size.
const MAX_DOUBLED_PIXELS: u64 = 2_500_000;
const FONT: &str = "sans-serif";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InkColour(pub u8, pub u8, pub u8);

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

/// A failure to paint, which is a bug unless memory is short.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw the figure: {0}")]
pub struct PaintError(String);

impl PaintError {
    fn of(error: impl Display) -> PaintError {
        PaintError(error.to_string())
    }
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
    pub fn svg(&self) -> Result<String, PaintError> {
        embed_font()?;
        let mut text = String::new();
        {
            let area =
                SVGBackend::with_string(&mut text, (self.width, self.height)).into_drawing_area();
            self.paint(&area, 1.0)?;
        }
        Ok(text)
    }

    /// Returns the figure as PNG bytes.
    pub fn png(&self) -> Result<Vec<u8>, PaintError> {
        embed_font()?;
        let fine = u64::from(self.width) * u64::from(self.height) <= MAX_DOUBLED_PIXELS;
        let scale = if fine { 2 } else { 1 };
        let (width, height) = (self.width * scale, self.height * scale);
        let mut pixels = vec![0u8; width as usize * height as usize * 3];
        {
            let area = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
            self.paint(&area, f64::from(scale))?;
        }
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().map_err(PaintError::of)?;
        writer.write_image_data(&pixels).map_err(PaintError::of)?;
        writer.finish().map_err(PaintError::of)?;
        Ok(file)
    }

    fn paint<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
        scale: f64,
    ) -> Result<(), PaintError> {
        area.fill(&rgb_colour(WHITE)).map_err(PaintError::of)?;
        for mark in &self.marks {
            paint_mark(area, mark, scale).map_err(PaintError::of)?;
        }
        area.present().map_err(PaintError::of)
    }
}

fn paint_mark<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    mark: &FigureMark,
    scale: f64,
) -> Result<(), impl Display + use<B>> {
    let px = |(x, y): (f64, f64)| ((x * scale).round() as i32, (y * scale).round() as i32);
    let stroke = |ink: InkColour, width: f64| {
        ShapeStyle::from(&rgb_colour(ink)).stroke_width((width * scale).round() as u32)
    };
    match mark {
        FigureMark::Fill { from, to, ink } => {
            area.draw(&Rectangle::new([px(*from), px(*to)], rgb_colour(*ink).filled()))
        }
        FigureMark::Frame { from, to, ink, width } => {
            area.draw(&Rectangle::new([px(*from), px(*to)], stroke(*ink, *width)))
        }
        FigureMark::Line { points, ink, width } => {
            let points: Vec<(i32, i32)> = points.iter().copied().map(px).collect();
            area.draw(&PathElement::new(points, stroke(*ink, *width)))
        }
        FigureMark::Dot { at, radius, ink, filled } => {
            let style = if *filled { rgb_colour(*ink).filled() } else { stroke(*ink, 1.5) };
            area.draw(&Circle::new(px(*at), (radius * scale).round() as i32, style))
        }
        FigureMark::Text { at, text, size, ink, anchor } => {
            let style = text_style(*size * scale, *ink, *anchor);
            area.draw(&Text::new(text.as_str(), px(*at), style))
        }
    }
}

fn text_style(size: f64, ink: InkColour, anchor: TextAnchor) -> TextStyle<'static> {
    let across = match anchor {
        TextAnchor::Left => HPos::Left,
        TextAnchor::Middle | TextAnchor::Rotated => HPos::Center,
        TextAnchor::Right => HPos::Right,
    };
    let font = (FONT, size).into_font();
    let font =
        if anchor == TextAnchor::Rotated { font.transform(FontTransform::Rotate270) } else { font };
    TextStyle {
        font,
        color: rgb_colour(ink).to_backend_color(),
        pos: Pos::new(across, VPos::Center),
    }
}

const fn rgb_colour(InkColour(red, green, blue): InkColour) -> RGBColor {
    RGBColor(red, green, blue)
}

/// Registers an embedded font, because a minimal host has no fonts.
fn embed_font() -> Result<(), PaintError> {
    let font = epaint_default_fonts::UBUNTU_LIGHT;
    register_font(FONT, FontStyle::Normal, font)
        .map_err(|_| PaintError(String::from("cannot read the embedded font")))
}
