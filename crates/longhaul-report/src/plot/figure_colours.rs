//! Colours that are distinct to colour-blind readers and keep their order in greyscale.

use super::figure_sheet::{BLACK, InkColour, WHITE};

/// Every eighth of Viridis (van der Walt and Smith 2015).
const STEPS: [[f64; 3]; 9] = [
    [68.0, 1.0, 84.0],
    [71.0, 44.0, 122.0],
    [59.0, 81.0, 139.0],
    [44.0, 113.0, 142.0],
    [33.0, 144.0, 141.0],
    [39.0, 173.0, 129.0],
    [92.0, 200.0, 99.0],
    [170.0, 220.0, 50.0],
    [253.0, 231.0, 37.0],
];
/// The maximum lightness of lines on white.
const LIGHTEST_LINE: f64 = 0.82;

/// Returns the colour between dark (0) and light (1).
pub fn viridis_colour(share: f64) -> InkColour {
    let place = share.clamp(0.0, 1.0) * (STEPS.len() - 1) as f64;
    let below = (place as usize).min(STEPS.len() - 2);
    let part = place - below as f64;
    let mix = |i: usize| (STEPS[below][i] * (1.0 - part) + STEPS[below + 1][i] * part) as u8;
    InkColour(mix(0), mix(1), mix(2))
}

/// The colour for kernel-sized windows, outside the scale (vermilion of Okabe and Ito 2008).
const AUTO_WINDOW_COLOUR: InkColour = InkColour(0xd5, 0x5e, 0x00);

/// Returns the colour of the `index`th of `count` windows.
pub fn window_colour(window_bytes: Option<u64>, index: usize, count: usize) -> InkColour {
    if window_bytes.is_none() {
        return AUTO_WINDOW_COLOUR;
    }
    viridis_colour(LIGHTEST_LINE * index as f64 / count.saturating_sub(1).max(1) as f64)
}

/// Returns a text colour that is readable on this background.
pub fn contrasting_colour(ground: InkColour) -> InkColour {
    let InkColour(red, green, blue) = ground;
    let light = 0.299 * f64::from(red) + 0.587 * f64::from(green) + 0.114 * f64::from(blue);
    if light > 140.0 { BLACK } else { WHITE }
}
