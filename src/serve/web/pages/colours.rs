//! The colours of a terminal's text in a page: one class for each of 256, since
//! a page may not carry styles in its markup. Others become the nearest of them.

use std::fmt::Write as _;

/// Red, green, blue.
type Rgb = (u8, u8, u8);

/// The sixteen colours that have names.
const NAMED: [Rgb; 16] = [
    (0x3b, 0x40, 0x4d),
    (0xe0, 0x6c, 0x75),
    (0x8c, 0xc2, 0x6b),
    (0xe5, 0xc0, 0x7b),
    (0x6c, 0xb0, 0xf0),
    (0xcf, 0x8a, 0xe0),
    (0x5c, 0xc4, 0xcc),
    (0xc8, 0xcc, 0xd4),
    (0x7d, 0x86, 0x96),
    (0xf4, 0x8d, 0x95),
    (0xa8, 0xdb, 0x88),
    (0xf5, 0xd7, 0x98),
    (0x93, 0xc8, 0xff),
    (0xe2, 0xa9, 0xf0),
    (0x83, 0xdf, 0xe6),
    (0xff, 0xff, 0xff),
];

/// The steps of a channel in the cube of 216 colours.
const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];

/// The background that text without one of its own stands on.
const DARK: Rgb = (0x14, 0x16, 0x1b);
const LIGHT: Rgb = (0xff, 0xff, 0xff);

/// How much a text must stand out from its background.
const CONTRAST: f64 = 4.5;

/// The colour of an index.
fn colour(index: u8) -> Rgb {
    match index {
        0..16 => NAMED[usize::from(index)],
        16..232 => {
            let at = index - 16;
            let step = |n: u8| STEPS[usize::from(n % 6)];
            (step(at / 36), step(at / 6), step(at))
        }
        232.. => {
            let grey = 8 + 10 * (index - 232);
            (grey, grey, grey)
        }
    }
}

/// The index of the colour that is nearest to another one.
pub(super) fn nearest(red: u8, green: u8, blue: u8) -> u8 {
    let far = |(r, g, b): Rgb| -> u32 {
        [(r, red), (g, green), (b, blue)]
            .iter()
            .map(|(one, other)| u32::from(one.abs_diff(*other)).pow(2))
            .sum()
    };
    (16..=255).min_by_key(|index| far(colour(*index))).unwrap_or(16)
}

/// The classes: `f0` to `f255` for text on the page's own background, where it
/// can be read in the dark and in the light; `t` and `g` for text and background
/// as they are.
pub(super) fn style_sheet() -> String {
    let mut dark = String::new();
    let mut light = String::new();
    for index in 0..=255 {
        let of = colour(index);
        let _ = writeln!(dark, ".f{index}{{color:{}}}", hex(readable(of, DARK)));
        let _ = writeln!(dark, ".t{index}{{color:{}}}", hex(of));
        let _ = writeln!(dark, ".g{index}{{background:{}}}", hex(of));
        let _ = writeln!(light, ".f{index}{{color:{}}}", hex(readable(of, LIGHT)));
    }
    format!("{dark}@media (prefers-color-scheme: light) {{\n{light}}}\n")
}

fn hex((red, green, blue): Rgb) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// The colour, moved away from the background as far as is needed.
fn readable(of: Rgb, background: Rgb) -> Rgb {
    let away: u16 = if luminance(background) > 0.5 { 0 } else { 255 };
    let moved = |step: u16| {
        let towards = |channel: u8| {
            let mixed = (u16::from(channel) * (20 - step) + away * step) / 20;
            u8::try_from(mixed).unwrap_or(u8::MAX)
        };
        (towards(of.0), towards(of.1), towards(of.2))
    };
    (0..=20).map(moved).find(|it| contrast(*it, background) >= CONTRAST).unwrap_or(of)
}

/// The relative luminance of WCAG 2.
fn luminance((red, green, blue): Rgb) -> f64 {
    let linear = |channel: u8| {
        let part = f64::from(channel) / 255.0;
        if part <= 0.039_28 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
}

fn contrast(one: Rgb, other: Rgb) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_colour_can_be_read_in_the_dark_and_in_the_light() {
        for index in 0..=255 {
            for background in [DARK, LIGHT] {
                let shown = readable(colour(index), background);
                assert!(contrast(shown, background) >= CONTRAST, "{index}: {shown:?}");
            }
        }
    }

    #[test]
    fn a_colour_without_an_index_becomes_the_nearest() {
        assert_eq!(nearest(255, 0, 0), 196);
        assert_eq!(nearest(0, 0, 0), 16);
        assert_eq!(nearest(9, 7, 8), 232);
        for index in 16..=255 {
            let (red, green, blue) = colour(index);
            assert_eq!(colour(nearest(red, green, blue)), (red, green, blue));
        }
    }
}
