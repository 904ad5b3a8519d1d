//! A figure as a list of marks, painted in the same way as SVG or PNG.
//!
//! Coordinates are pixels from the upper left corner; a PNG has twice as many of each.

use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Polygon, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color, FontStyle, FontTransform, IntoFont, RGBColor, ShapeStyle, TextStyle, register_font,
};
use std::fmt::Display;

/// The maximum number of pixels of a sheet whose PNG is painted at double size.
const MOST_FINE_PIXELS: u64 = 2_500_000;
const FONT: &str = "sans-serif";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ink(pub u8, pub u8, pub u8);

pub const BLACK: Ink = Ink(0x20, 0x20, 0x24);
pub const GREY: Ink = Ink(0x6b, 0x6b, 0x73);
pub const FAINT: Ink = Ink(0xdd, 0xdd, 0xe2);
pub const WHITE: Ink = Ink(0xff, 0xff, 0xff);

/// The point of a text that is at its coordinates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Left,
    Middle,
    Right,
    /// The middle of a text that is read from below.
    Upward,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Mark {
    Fill {
        from: (f64, f64),
        to: (f64, f64),
        ink: Ink,
    },
    Frame {
        from: (f64, f64),
        to: (f64, f64),
        ink: Ink,
        width: f64,
    },
    Line {
        points: Vec<(f64, f64)>,
        ink: Ink,
        width: f64,
    },
    /// A closed and filled shape.
    Area { points: Vec<(f64, f64)>, ink: Ink },
    Dot {
        at: (f64, f64),
        radius: f64,
        ink: Ink,
        filled: bool,
    },
    /// A text; `at` is at half its height.
    Text {
        at: (f64, f64),
        text: String,
        size: f64,
        ink: Ink,
        anchor: Anchor,
    },
}

/// A figure as a list of marks.
#[derive(Debug, Clone, PartialEq)]
pub struct Sheet {
    pub width: u32,
    pub height: u32,
    pub marks: Vec<Mark>,
}

/// A failure to paint, which is a bug unless memory is short.
#[derive(Debug, thiserror::Error)]
#[error("the figure could not be painted: {0}")]
pub struct PaintError(String);

impl PaintError {
    fn of(error: impl Display) -> PaintError {
        PaintError(error.to_string())
    }
}

impl Sheet {
    pub fn new(width: f64, height: f64) -> Sheet {
        Sheet {
            width: width as u32,
            height: height as u32,
            marks: Vec::new(),
        }
    }

    pub fn fill(&mut self, from: (f64, f64), to: (f64, f64), ink: Ink) {
        self.marks.push(Mark::Fill { from, to, ink });
    }

    pub fn frame(&mut self, from: (f64, f64), to: (f64, f64), ink: Ink, width: f64) {
        self.marks.push(Mark::Frame {
            from,
            to,
            ink,
            width,
        });
    }

    pub fn line(&mut self, points: &[(f64, f64)], ink: Ink, width: f64) {
        let points = points.to_vec();
        self.marks.push(Mark::Line { points, ink, width });
    }

    pub fn area(&mut self, points: &[(f64, f64)], ink: Ink) {
        let points = points.to_vec();
        self.marks.push(Mark::Area { points, ink });
    }

    /// Draws a dashed straight line.
    pub fn dashes(&mut self, from: (f64, f64), to: (f64, f64), ink: Ink) {
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

    pub fn dot(&mut self, at: (f64, f64), radius: f64, ink: Ink, filled: bool) {
        self.marks.push(Mark::Dot {
            at,
            radius,
            ink,
            filled,
        });
    }

    pub fn text(
        &mut self,
        at: (f64, f64),
        text: impl Into<String>,
        size: f64,
        ink: Ink,
        anchor: Anchor,
    ) {
        // Host names are untrusted: control characters could steer a terminal or break the file.
        let text = text
            .into()
            .chars()
            .map(|c| if c.is_control() { '?' } else { c })
            .collect();
        self.marks.push(Mark::Text {
            at,
            text,
            size,
            ink,
            anchor,
        });
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
        let fine = u64::from(self.width) * u64::from(self.height) <= MOST_FINE_PIXELS;
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
        area.fill(&colour(WHITE)).map_err(PaintError::of)?;
        for mark in &self.marks {
            paint(area, mark, scale).map_err(PaintError::of)?;
        }
        area.present().map_err(PaintError::of)
    }
}

fn paint<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    mark: &Mark,
    scale: f64,
) -> Result<(), impl Display + use<B>> {
    let px = |(x, y): (f64, f64)| ((x * scale).round() as i32, (y * scale).round() as i32);
    let stroke = |ink: Ink, width: f64| {
        ShapeStyle::from(&colour(ink)).stroke_width((width * scale).round() as u32)
    };
    match mark {
        Mark::Fill { from, to, ink } => {
            area.draw(&Rectangle::new([px(*from), px(*to)], colour(*ink).filled()))
        }
        Mark::Frame {
            from,
            to,
            ink,
            width,
        } => area.draw(&Rectangle::new([px(*from), px(*to)], stroke(*ink, *width))),
        Mark::Line { points, ink, width } => {
            let points: Vec<(i32, i32)> = points.iter().copied().map(px).collect();
            area.draw(&PathElement::new(points, stroke(*ink, *width)))
        }
        Mark::Area { points, ink } => {
            let points: Vec<(i32, i32)> = points.iter().copied().map(px).collect();
            area.draw(&Polygon::new(points, colour(*ink).filled()))
        }
        Mark::Dot {
            at,
            radius,
            ink,
            filled,
        } => {
            let style = if *filled {
                colour(*ink).filled()
            } else {
                stroke(*ink, 1.5)
            };
            area.draw(&Circle::new(
                px(*at),
                (radius * scale).round() as i32,
                style,
            ))
        }
        Mark::Text {
            at,
            text,
            size,
            ink,
            anchor,
        } => {
            let style = lettering(*size * scale, *ink, *anchor);
            area.draw(&Text::new(text.as_str(), px(*at), style))
        }
    }
}

fn lettering(size: f64, ink: Ink, anchor: Anchor) -> TextStyle<'static> {
    let across = match anchor {
        Anchor::Left => HPos::Left,
        Anchor::Middle | Anchor::Upward => HPos::Center,
        Anchor::Right => HPos::Right,
    };
    let font = (FONT, size).into_font();
    let font = if anchor == Anchor::Upward {
        font.transform(FontTransform::Rotate270)
    } else {
        font
    };
    TextStyle {
        font,
        color: colour(ink).to_backend_color(),
        pos: Pos::new(across, VPos::Center),
    }
}

const fn colour(Ink(red, green, blue): Ink) -> RGBColor {
    RGBColor(red, green, blue)
}

/// Registers an embedded font, because a minimal host has no fonts.
fn embed_font() -> Result<(), PaintError> {
    let font = epaint_default_fonts::UBUNTU_LIGHT;
    register_font(FONT, FontStyle::Normal, font)
        .map_err(|_| PaintError(String::from("the embedded font cannot be read")))
}
